"""System page: completeness, schema drift, progress of syncs and of call assembly."""

from __future__ import annotations

import re

from integration.core import clock
from integration.mirror.derived import due, rebuild
from integration.mirror.sync_state import collection_state, completeness
from integration.platform_api.budget import BudgetState
from integration.sync.plan import PLAN
from integration.sync.reading import day_counts, verify_coverage
from integration.sync.reading.call_assembly import JOB_NAME
from tests.support.harness import wait_for
from tests.support.page_text import text


def test_system_shows_each_gap_with_its_cause_and_new_fields_of_the_platform(app, client):
    def job(tx) -> None:
        collection_state.finish_full_sync(tx, "cdrs", 9, 9, "2026-11-20 09:00:00")
        completeness.save_day(tx, "cdrs", "2026-11-18", 7, 7)
        completeness.save_day(tx, "cdrs", "2026-11-17", 5, 3, "the platform counts 2 more than it lists")
        tx.execute("UPDATE _coverage SET differs_since = '2026-11-18' WHERE total <> ours")
        tx.execute(
            "INSERT INTO _drift VALUES ('cdrs', '<b>mood</b>', 'field', 'string', '2026-11-01 10:00:00', "
            "'2026-11-19 10:00:00', 0)"
        )

    app.mirror_db.write(job)
    page = client.get("/system")
    shown = text(page)
    assert "17 Nov 2026: 3 of 5" in shown
    assert "the platform counts 2 more than it lists" in shown
    assert "new field (string)" in shown
    assert "Undocumented API changes 1 unknown field (nothing to do)" in shown
    assert "/cdrs" not in shown
    assert "<b>mood</b>" not in page.text


def test_a_count_that_moved_during_the_check_is_no_problem(app, client):
    def job(tx) -> None:
        collection_state.finish_full_sync(tx, "cdrs", 9, 9, clock.utc_text())
        completeness.save_day(tx, "cdrs", "2026-11-17", 5, 4, "the platform counts 1 more than it lists")

    app.mirror_db.write(job)
    shown = text(client.get("/system"))
    assert "1 daily count is checked again" in shown
    for page in ("/system", "/system/coverage/cdrs"):
        shown = text(client.get(page))
        assert "The number changed during the check. Checking again at" in shown
        assert "counts 1 more than it lists" not in shown
        assert "daily count differs" not in shown
    assert count_gaps(app) == (0, "0.0")
    app.clock.advance(60)
    app.mirror_db.write(
        lambda tx: completeness.save_day(
            tx, "cdrs", "2026-11-17", 5, 4, "the platform counts 1 more than it lists"
        )
    )
    assert "1 daily count differs" in text(client.get("/system"))
    assert count_gaps(app) == (1, "1.0")


def count_gaps(app) -> tuple[int, str]:
    """Return the gaps of `/readyz`, and the metric of CDRs."""
    day_counts.report_completeness(app.context)
    metric = re.search(r'switchroom_collection_gaps{collection="cdrs"} (.+)', app.client.get("/metrics").text)
    return app.client.get("/readyz").json["facts"]["coverage"]["gaps"], metric[1]


def test_system_shows_the_request_rate_and_the_circuit_breaker(app, client, monkeypatch):
    normal = {"per_minute": 600.0, "full": 600.0, "rest": 0.0, "open_since": None, "again": 0.0}
    for facts, words in (
        ({}, "600 requests a minute"),
        ({"per_minute": 9.4}, "9 of 600 requests a minute"),
        ({"rest": 30.0}, "The phone system limits requests. Syncs are paused until "),
        ({"open_since": 1.0, "again": 40.0}, "Retrying in 40 s"),
    ):
        state = BudgetState(**{**normal, **facts})
        monkeypatch.setattr(app.context.platform.budget, "state", lambda state=state: state)
        assert words in text(client.get("/system"))


def test_a_verification_is_started_by_an_administrator_and_shows_its_result(app, client, monkeypatch):
    verified = []

    def verify_collection(_context, policy, progress, **_options):
        verified.append(policy.collection)
        progress(collection=policy.collection, done=3, total=9)
        error = "away" if policy.collection == "sms" else None
        gaps = [{"day": "2026-11-18"}] if policy.collection == "cdrs" else []
        return {
            "collection": policy.collection,
            "days": 9 * (policy.collection == "cdrs"),
            "error": error,
            "complete": not error and not gaps,
        }

    monkeypatch.setattr(verify_coverage, "verify_collection", verify_collection)
    app.mirror_db.write(lambda tx: completeness.save_day(tx, "cdrs", "2026-11-18", 7, 6))
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", 9, 9, "2026-11-20 09:00:00"))
    client.post("/system/prove")
    result = (
        f"{len(PLAN) - 2} of {len(PLAN)} collections complete, 9 days compared; checked again in a minute: "
        "Call detail records; incomplete: SMS"
    )
    wait_for(lambda: result in text(client.get("/system")), "the result")
    assert verified == list(PLAN)


def test_pages_that_count_calls_show_the_backlog_of_legs(app, client):
    app.put(
        "cdrs",
        *(
            {"id": leg, "live_id": leg, "calldate": clock.utc_text(clock.unix() - 86_400 * 3)}
            for leg in (4278000006, 4278000007)
        ),
    )
    app.mirror_db.write(lambda tx: due.mark(tx, "legs", [(4278000006, 4278000007)]))
    notice = "are still being imported, newest first: 2 left"
    for path, is_shown in {"/calls": True, "/calls?range=today": False, "/reports?range=month": True}.items():
        assert (notice in text(client.get(path))) == is_shown, path
    rebuild.rebuild_due(app.mirror_db, app.context.rules)
    for path in ("/system", "/calls", "/reports"):
        assert "being imported" not in text(client.get(path))


def test_the_first_sync_has_one_progress_and_one_estimate(app, client):
    """1000 of 4000 CDRs are read and 400 of their legs are not computed.

    3400 legs at 100 a second take 34 s, 3000 CDRs at 1000 a second take 3 s.
    """
    app.put(
        "cdrs",
        *({"id": n, "live_id": n, "calldate": clock.utc_text()} for n in range(1, 1001)),
        complete=False,
    )
    app.mirror_db.write(lambda tx: collection_state.begin_full_sync(tx, "cdrs"))
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET total = 4000, complete_at = NULL") and None)
    rebuild.rebuild_due(app.mirror_db, app.context.rules)
    app.mirror_db.write(lambda tx: due.mark(tx, "legs", [(1, 400)]))
    app.context.health.set_fact(
        "reading cdrs", {"done": 1000, "total": 4000, "per_second": 1000.0, "seconds_left": 3.0}
    )
    shown = text(client.get("/system"))
    assert "newest calls first: 600 of 4 000 call records. Until then" in shown
    app.context.health.set_fact(JOB_NAME, {"done": 5, "total": 7, "per_second": 100.0, "seconds_left": 4.0})
    page = client.get("/system")
    assert "600 of 4 000 call records, about 37 s left" in text(page)
    assert text(page).count(" left") == 1
    main = page.text[page.text.index("<main") :]
    assert main[: main.index('id="disk"')].count("<progress") == 1


def test_a_full_sync_has_a_tick_only_if_both_numbers_are_equal(app, client):
    def row() -> str:
        page = client.get("/system").text
        start = page.index('<tr><th scope="row" title="/contacts">')
        return page[start : page.index("</tr>", start)]

    set_total = "UPDATE _walks SET total = 1 WHERE collection = 'contacts'"
    app.put("contacts", {"id": 1, "first_name": "Nora"})
    app.mirror_db.write(lambda tx: tx.execute(set_total))
    assert "Equal" in row()
    app.put("contacts", {"id": 2, "first_name": "Omar"}, complete=False)
    assert "Equal" not in row()
