"""While the platform is unreachable, no page claims that there is nothing."""

from __future__ import annotations

import re

import pytest
import requests

from integration.core import clock
from integration.platform_api.circuit import MIN_FAILING_SECONDS, MIN_FAILURES
from integration.workspace import wallboards
from tests.support.application import Browser, TestApp
from tests.support.applications.shared_app import SharedApp, module_app, shared_app
from tests.support.clock import Clock
from tests.support.page_text import text
from tests.support.payloads.account_records import Filling

__all__ = ["module_app", "shared_app"]

SINCE = "2026-07-01 10:00:00"
BANNER = "Phone system unreachable since 1 Jul"
DOUBT = "phone system has been unreachable since 1 Jul"

PAGES = {
    "/": "Cannot see calls right now",
    "/missed": "No missed calls known",
    "/calls": "No calls known",
    "/messages": "No messages known",
    "/messages/faxes": "No faxes known",
    "/voicemail": "No voice messages known",
    "/recordings": "No recordings known",
    "/contacts": "No contacts known",
    "/reports": "No calls known",
    "/account/queues": "None known",
}
"""Pages without a record, and their headings while the platform is unreachable."""
SEARCHES = {
    "/calls?q=nobody": "No calls match “nobody”",
    "/calls?range=today": "Nothing in this period",
    "/messages?find=nobody": "No message or contact contains “nobody”",
    "/messages?with=447700900177": "No messages with this number known",
    "/messages/faxes?find=nobody": "No fax number or contact name contains “nobody”",
    "/voicemail?find=nobody": "No transcript, name or number contains “nobody”",
    "/recordings?find=nobody": "No transcript, name or number contains “nobody”",
    "/contacts?find=nobody": "contains “nobody”",
    "/contacts/of/447700900177": "will appear here",
    "/reports?range=today": "No calls in this period known",
}
"""Searches without a result in a mirror with records, and their texts."""
ALL_CLEAR = re.compile(
    r"No one to call back|no one waiting|No calls right now|Nothing to report yet|The phone system has no \w"
    r"|No (?:calls|messages|faxes|voice messages|recordings|contacts) yet"
)


@pytest.fixture
def client(shared_app: SharedApp) -> Browser:
    """A logged-in administrator."""
    return shared_app.log_in()


@pytest.fixture
def away(shared_app: SharedApp) -> SharedApp:
    """Application whose platform has been unreachable since 1 July."""
    shared_app.insert(
        "_walks",
        collection="cdrs",
        last_success_at=SINCE,
        complete_at=SINCE,
        last_error="no route",
        last_error_at=clock.utc_text(),
        failures=1,
    )
    Filling(shared_app)("queues")
    return shared_app


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_page_states_that_its_content_is_not_known(
    away: SharedApp, client: Browser, path: str
) -> None:
    shown = text(client.get(path))
    assert BANNER in shown
    assert PAGES[path] in shown
    assert DOUBT in shown
    assert not ALL_CLEAR.search(shown)


@pytest.mark.parametrize("path", SEARCHES)
def test_a_search_without_result_states_its_doubt(away: SharedApp, client: Browser, path: str) -> None:
    away.call(1, "2026-06-01 10:00:00")
    away.put("contacts", {"id": 1, "first_name": "Ann", "tel": "447700900101"})
    message = {"from": "447700900101", "to": "442079460002", "message": "Hello", "type": "I"}
    away.put("sms", {"id": 1, "created_at": "2026-06-01 10:00:00", **message})
    shown = text(client.get(path))
    assert BANNER in shown
    assert SEARCHES[path] in shown
    assert DOUBT in shown
    assert not ALL_CLEAR.search(shown)


def test_queues_and_the_drawer_claim_nothing(away: SharedApp, client: Browser) -> None:
    away.put("queues", {"id": 5, "name": "Support"})
    away.call(1, clock.utc_text(), state="talking", outcome=None)
    assert "Support none known" in text(client.get("/"))
    assert "No earlier calls known: phone system unreachable since 1 Jul" in text(
        client.get("/calls/1/beside")
    )


def test_the_banner_names_the_cause_and_claims_webhooks_only_if_one_ever_came(
    away: SharedApp, client: Browser
) -> None:
    assert "1 Jul 11:00. No route. No calls arrive. Run diagnostics" in text(client.get("/missed"))
    error = "the platform refuses connections; check platform.base_url"
    away.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET last_error = ?", (error,)) and None)
    page = client.get("/missed")
    assert "It refuses connections. No calls arrive. Check the address" in text(page)
    assert '<a href="/settings/connection#platform">Check the address</a>' in page.text
    assert "Webhooks aren’t set up yet" in text(client.get("/"))
    away.context.inbox.receive(b"{}").result(30)
    shown = text(client.get("/"))
    assert "It refuses connections. Live calls still arrive by webhook" in shown
    assert "Webhooks aren’t set up yet" not in shown


def test_figures_are_not_known_if_nothing_was_ever_synced(shared_app: SharedApp, client: Browser) -> None:
    shared_app.insert("_walks", collection="cdrs", last_error="no route", last_error_at=SINCE, failures=1)
    shown = text(client.get("/"))
    assert "Ringing — Talking — On hold — Longest wait — To call back — Calls today — " in shown
    assert re.search(r"Since \d\d:\d\d — ", shown)
    shared_app.call(1, clock.utc_text(), state="talking", outcome=None)
    shown = text(client.get("/"))
    assert "Ringing — Talking 1 On hold — " in shown
    assert "Calls today 1 " in shown
    assert re.search(r"Since \d\d:\d\d 1 call · 0 missed", shown)


def test_the_wallboard_shows_no_target_as_met(away: SharedApp) -> None:
    path = f"/wall/{wallboards.add(away.app_db, 'Front desk', callback_target=0)}"
    shown = text(requests.get(away.url + path, timeout=30))
    assert "Phone system unreachable since 1 Jul" in shown
    assert "To call back 0 target 0" in shown
    away.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET last_error = NULL, failures = 0") and None)
    shown = text(requests.get(away.url + path, timeout=30))
    assert "Phone system unreachable" not in shown
    assert "To call back 0 ✓ target 0" in shown


def test_an_unfinished_first_sync_is_stated_and_a_reachable_platform_needs_no_doubt(
    shared_app: SharedApp, client: Browser
) -> None:
    shown = text(client.get("/missed"))
    assert "No missed calls known The first sync has not finished" in shown
    shared_app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    shown = text(client.get("/missed"))
    assert "No one to call back" in shown
    assert "has not finished" not in shown
    assert "unreachable" not in shown


def test_an_open_circuit_counts_as_unreachable_before_a_read_of_cdrs_fails(
    stopped_clock: Clock, app: TestApp
) -> None:
    app.insert("_walks", collection="cdrs", last_success_at=clock.utc_text())
    client, budget = app.log_in(), app.context.platform.budget
    budget.record_failure()
    assert "unreachable" not in text(client.get("/missed"))
    stopped_clock.advance(MIN_FAILING_SECONDS)
    for _ in range(MIN_FAILURES):
        budget.record_failure()
    for path in ("/missed", "/contacts", "/"):
        assert re.search(r"Phone system unreachable since \d\d:\d\d", text(client.get(path)))
    budget.record_success()
    assert "unreachable" not in text(client.get("/missed"))


def test_a_refused_collection_is_no_outage(shared_app: SharedApp, client: Browser) -> None:
    shared_app.insert(
        "_walks", collection="cdrs", last_error="403", last_error_at=SINCE, failures=2, off_since=SINCE
    )
    assert "unreachable" not in text(client.get("/missed"))
