"""A first load stores history, and puts its calls together afterwards."""

from __future__ import annotations

import json

import pytest

from integration.core import clock
from integration.mirror.calls import backlog as waiting
from integration.mirror.sync_state import completeness
from integration.sync.plan import PLAN
from integration.sync.reading import call_assembly, full_sync, page_store
from integration.sync.reading.full_sync import run_full_sync

CDRS = PLAN["cdrs"]

LEGS = "SELECT * FROM _legs ORDER BY leg_id"
CALLS = (
    "SELECT id, direction, state, outcome, started_at, answered_at, ended_at, wait_seconds, talk_seconds,"
    " party, user_id, legs, recordings, voicemails, cdrs, sources FROM _calls ORDER BY id"
)
IDS = "SELECT id, call_id FROM _call_ids ORDER BY id"


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """The seven newest records are put together at once; then seven are read, three committed at a time."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 7)
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 7)
    monkeypatch.setattr(page_store, "RECORDS_PER_TRANSACTION", 3)
    monkeypatch.setattr(page_store, "HISTORY_RECORDS_PER_TRANSACTION", 3)
    monkeypatch.setattr(call_assembly, "LEGS_PER_TRANSACTION", 4)
    monkeypatch.setattr(waiting, "NEIGHBOUR_COUNT", 5)


def left(simulated):
    with simulated.mirror_db.read() as connection:
        return waiting.count(connection)


def test_what_is_newest_is_there_at_once_and_the_rest_is_the_same_in_the_end(
    simulated, make_simulated, monkeypatch
):
    for script in ("ring_group_answered", "hunt_answered", "transfer", "voicemail"):
        simulated.play(script)
    collections = [
        PLAN[name] for name in ("users", "queues", "ringgroups", "cdrs", "monitors", "voicemessages")
    ]
    for policy in collections:
        run_full_sync(simulated.context, policy)
    newest = [row[0] for row in simulated.rows("SELECT live_id FROM cdrs ORDER BY id DESC LIMIT 7")]
    there = {row[0] for row in simulated.rows("SELECT leg_id FROM _legs")}
    assert there >= set(newest)
    assert left(simulated) > 7
    told = []
    assert (
        call_assembly.assemble_pending(
            simulated.context, on_progress=lambda done, total: told.append((done, total))
        )
        == 0
    )
    assert told[0][1] >= told[-1][0] == told[-1][1] > 7
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 10**9)
    eager = make_simulated(simulator=simulated.simulator)
    for policy in collections:
        run_full_sync(eager.context, policy)
    assert left(eager) == 0
    for sql in (LEGS, CALLS, IDS):
        assert simulated.rows(sql) == eager.rows(sql) != []


def test_it_ends_when_it_is_no_longer_wanted_and_goes_on_from_there(simulated):
    run_full_sync(simulated.context, CDRS)
    before = left(simulated)
    answers = iter([True, True, False])
    assert call_assembly.assemble_pending(simulated.context, lambda: next(answers)) == left(simulated)
    assert before - 2 * 4 >= left(simulated) > 0
    assert call_assembly.assemble_pending(simulated.context) == left(simulated) == 0


def test_the_newest_come_first(simulated):
    run_full_sync(simulated.context, CDRS)
    waits = simulated.rows("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC")
    simulated.mirror_db.write(lambda tx: simulated.context.call_store.assemble_backlog(tx, 4))
    assert {row[0] for row in simulated.rows("SELECT leg_id FROM _legs")} >= {row[0] for row in waits[:4]}
    assert simulated.rows("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC")[0] <= waits[4]


def test_a_leg_that_is_told_of_while_it_waits_is_put_together_with_its_call(simulated):
    simulated.play("transfer")
    number = len(simulated.records("cdrs"))
    legs = [row["live_id"] for row in list(simulated.records("cdrs").values())[number - 2 :]]
    simulated.add_cdrs(20, parent_live_id=None, src="447700900199", calldate="2026-01-02 03:04:05")
    run_full_sync(simulated.context, CDRS)
    assert {(leg,) for leg in legs} <= set(simulated.rows("SELECT leg_id FROM _legs_due"))
    simulated.mirror_db.write(lambda tx: simulated.context.call_store.refresh(tx, legs[:1]))
    calls = simulated.rows(
        "SELECT DISTINCT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))",
        json.dumps(legs),
    )
    assert len(calls) == 1
    before = simulated.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}")
    call_assembly.assemble_pending(simulated.context)
    assert simulated.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}") == before


def test_a_report_of_calls_is_not_complete_while_some_of_its_calls_wait(simulated):
    run_full_sync(simulated.context, CDRS)
    with simulated.mirror_db.read() as connection:
        oldest, newest = connection.execute("SELECT min(calldate), max(calldate) FROM cdrs").fetchone()
        until = clock.parse_utc(newest)
        begin = clock.parse_utc(oldest)
        assert "put together" in (completeness.explain_unfinished_calls(connection, begin, until) or "")
        assert completeness.explain_unfinished_calls(connection, until, until) is None
    call_assembly.assemble_pending(simulated.context)
    with simulated.mirror_db.read() as connection:
        assert completeness.explain_unfinished_calls(connection, begin, until) is None
