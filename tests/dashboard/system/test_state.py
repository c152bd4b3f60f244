"""System page: the sentence at its top, problems, folded sections, held deletions, addresses."""

from __future__ import annotations

import re
from html import unescape

import pytest
import requests

from integration.access import audit
from integration.core import clock
from integration.core.errors import PlatformThrottled
from integration.mirror.derived import due
from integration.mirror.derived.rebuild import rebuild_due
from integration.mirror.sync_state import collection_state
from integration.sync.plan import PLAN
from tests.support.harness import wait_for
from tests.support.page_text import text
from tests.support.people import BOB


def finish_syncs(app) -> None:
    """Mark all collections as synced now."""

    def job(tx) -> None:
        for name in PLAN:
            collection_state.finish_full_sync(tx, name, 0, 0, clock.utc_text())
        collection_state.record_poll(tx, "calls", 0, clock.utc_text())

    app.mirror_db.write(job)


def receive(app) -> None:
    """Send one webhook to the receiver."""
    url = re.search(r"/webhooks/[\w-]+", app.log_in().get("/system").text)[0]
    response = requests.post(app.url + url, json={"event": "call.ringing", "call_id": 7}, timeout=20)
    assert response.json() == {"status": "stored"}


def top(client) -> str:
    """Text of the page above the folded sections."""
    page = client.get("/system").text
    markup = page[page.index('id="state"') : page.index('id="system"')]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", markup)).split()).replace(" .", ".")


def hold(app, count: int = 30) -> None:
    """Store contacts that a full sync did not find, above the deletion limit."""
    for number in range(1, count + 1):
        app.put("contacts", {"id": number, "first_name": f"Caller {number}", "tel": f"4477009001{number:02}"})

    def job(tx) -> None:
        tx.execute("UPDATE contacts SET _last_seen = '2026-11-20 08:00:00'")
        collection_state.finish_full_sync(tx, "contacts", 0, 0, "2026-11-20 09:00:00")
        collection_state.hold_deletions(tx, "contacts", count)

    app.mirror_db.write(job)


def test_a_healthy_system_is_one_sentence_and_closed_sections(app, client):
    finish_syncs(app)
    receive(app)
    page = client.get("/system").text
    assert re.search(r"No problems\. Last sync \d+ s ago\.", top(client))
    assert "notice" not in page[page.index('id="state"') : page.index('id="system"')]
    assert "<details" in page
    assert not re.search(r"<details[^>]* open", page)
    assert "Components no problems" in text(client.get("/system"))


def test_the_first_sync_is_not_reported_as_complete(app, client):
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 9, 9, clock.utc_text()))
    assert f"First sync: 1 of {len(PLAN)} collections." in top(client)
    assert "No problems" not in top(client)


def test_each_problem_is_listed_at_the_top_and_counted(app, client):
    finish_syncs(app)
    receive(app)
    app.context.health.fail("clockwork", "no run since 09:00")
    app.context.health.fail("incremental sync of faxes", "HTTP 500")
    shown = top(client)
    assert "2 problems." in shown
    assert "Scheduler: no run since 09:00" in shown
    assert "Sync of Faxes: HTTP 500" in shown
    assert "No problems" not in shown


def test_a_failing_sync_is_one_problem(app, client):
    finish_syncs(app)
    receive(app)
    app.context.health.fail("incremental sync of sms", "HTTP 500")
    app.mirror_db.write(lambda tx: collection_state.record_failure(tx, "sms", "HTTP 500"))
    shown = top(client)
    assert "1 problem." in shown
    assert "SMS: HTTP 500" in shown
    assert "sms sync" not in shown


def test_an_unreachable_platform_is_one_problem(app, client):
    finish_syncs(app)
    receive(app)
    error = "the platform refuses connections; check platform.base_url"
    for collection in ("cdrs", "sms"):
        app.context.health.fail(f"incremental sync of {collection}", "no connection")
        app.mirror_db.write(lambda tx, name=collection: collection_state.record_failure(tx, name, error))
    for name in ("platform", "live calls", "lists", "full syncs", "lookups"):
        app.context.health.fail(name, "no connection")
    shown = top(client)
    assert re.search(r"Phone system unreachable since [\d:]+\. Last sync \d+ s ago\. It refuses", shown)
    assert "It refuses connections. Check the address" in shown
    assert "problem" not in shown
    assert "platform.base_url" not in shown
    assert "no connection" not in shown
    page = text(client.get("/system"))
    assert page.count("Phone system unreachable since") == 1
    assert re.search(r"Components 7 components fail while the phone system is unreachable", page)
    assert "Phone system unreachable since" in text(client.get("/system/alerts"))
    app.context.health.fail("retention", "disk I/O error")
    assert re.search(r"unreachable since [\d:]+\. 1 other problem\.", top(client))


def test_administrators_copy_the_webhook_url_and_the_base_url_of_the_api(app, client):
    page = client.get("/system").text
    (webhook_url,) = re.findall(r'data-copy="(http://127\.0\.0\.1:8000/webhooks/[\w-]{20,})"', page)
    assert f"{webhook_url}</code>" in page
    api_url = "http://127.0.0.1:8000/v1.2/voipstudio"
    assert f'data-copy="{api_url}"' in page
    assert f"{api_url}</code>" in page
    assert webhook_url not in app.log_in(BOB).get("/system").text


def test_held_deletions_are_kept_by_undo(app, client):
    finish_syncs(app)
    hold(app)
    shown = top(client)
    assert "Contacts: 30 of 30 are missing on the phone system. They stay here until you decide." in shown
    assert "1 problem." in shown
    assert "Accept deletions" not in top(app.log_in(BOB))
    client.post("/system/deletions/undo", collection="contacts")
    wait_for(lambda: "Contacts: the missing records stay here." in top(client), "the end of the job")
    assert "until you decide" not in top(client)
    with app.mirror_db.read() as connection:
        states = connection.execute("SELECT state, count(*) FROM _deletions GROUP BY state").fetchall()
    assert [tuple(row) for row in states] == [("kept", 30)]
    wait_for(lambda: len(audit.list_newest(app.app_db)) == 2, "the audit of the end")
    assert audit.list_newest(app.app_db)[0].what == "deletions in contacts undone"


def test_held_deletions_are_accepted_and_then_undone(app, client):
    finish_syncs(app)
    hold(app)
    app.platform.respond("/contacts", {"data": [], "total": 0})
    client.post("/system/deletions/accept", collection="contacts")
    wait_for(lambda: "Contacts: 30 marked as deleted." in top(client), "the end of the sync")
    assert "until you decide" not in top(client)
    assert "Contacts: 30 marked as deleted, last" in text(client.get("/system"))
    client.post("/system/deletions/undo", collection="contacts")
    wait_for(lambda: "Contacts: 30 restored." in top(client), "the records")


@pytest.fixture
def zone(settings):
    settings["dashboard__timezone"] = "Asia/Kolkata"


def test_a_pause_that_the_platform_requests_is_a_failed_check_with_its_end(zone, app, client):
    app.clock.freeze("2026-11-20 10:00:00")
    app.context.sync_jobs.schedule()
    finish_syncs(app)
    limited = {"message": "Too many requests", "errors": []}
    app.platform.routes["/cdrs"] = lambda _request, reply: reply.json(
        limited, 429, {"Retry-After": "31536000"}
    )
    with pytest.raises(PlatformThrottled):
        app.context.platform.get("/cdrs", tries=1)
    report = app.client.get("/readyz").json
    check = report["checks"]["platform"]
    assert (report["status"], check["state"]) == ("degraded", "failing")
    assert "until 2026-11-20 10:10:00 UTC" in check["error"]
    shown = top(client)
    assert "1 problem." in shown
    assert "paused until 15:40" in shown
    app.clock.advance(601)
    assert app.client.get("/readyz").json["status"] == "ok"
    assert "paused" not in top(client)


def test_pages_and_metrics_do_not_read_the_facts_of_health(app, client):
    """During an initial sync the fact of what is due takes ten times as long as a page."""
    reads = []
    app.context.health.provide_fact("counted", lambda: reads.append(1))
    for path in ("/live", "/calls", "/missed", "/messages", "/reports", "/system", "/metrics"):
        assert client.get(path).status_code == 200
    assert not reads
    client.get("/readyz")
    assert reads == [1]


def test_what_is_due_of_a_derived_table_is_one_line_of_readyz_metrics_and_the_page(app, client):
    app.call(5, "2026-09-21 14:00:00")
    rebuild_due(app.mirror_db, app.context.rules)
    assert "search" not in client.get("/readyz").json()["facts"]["due"]
    app.mirror_db.write(lambda tx: due.mark(tx, "search", [(1, 10)]))
    since = clock.utc_text()
    assert client.get("/readyz").json()["facts"]["due"]["search"] == {"count": 1, "since": since}
    assert 'switchroom_due{table="search"} 1.0' in client.get("/metrics").text
    assert "Search index: 1 call due since" in text(client.get("/system"))
    rebuild_due(app.mirror_db, app.context.rules)
    assert 'switchroom_due{table="search"} 0.0' in client.get("/metrics").text
