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
from tests.support.applications.sync_rig import CDRS, Rig

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


def left(rig):
    with rig.mirror_db.read() as connection:
        return waiting.count(connection)


def test_what_is_newest_is_there_at_once_and_the_rest_is_the_same_in_the_end(rig, tmp_path, monkeypatch):
    for script in ("ring_group_answered", "hunt_answered", "transfer", "voicemail"):
        rig.play(script)
    collections = [
        PLAN[name] for name in ("users", "queues", "ringgroups", "cdrs", "monitors", "voicemessages")
    ]
    for policy in collections:
        run_full_sync(rig.parts, policy)
    newest = [row[0] for row in rig.rows("SELECT live_id FROM cdrs ORDER BY id DESC LIMIT 7")]
    there = {row[0] for row in rig.rows("SELECT leg_id FROM _legs")}
    assert there >= set(newest)
    assert left(rig) > 7
    told = []
    assert (
        call_assembly.assemble_pending(rig.parts, on_progress=lambda done, total: told.append((done, total)))
        == 0
    )
    assert told[0][1] >= told[-1][0] == told[-1][1] > 7
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 10**9)
    (tmp_path / "eager").mkdir()
    eager = Rig(tmp_path / "eager", rig.simulator)
    try:
        for policy in collections:
            run_full_sync(eager.parts, policy)
        assert left(eager) == 0
        for sql in (LEGS, CALLS, IDS):
            assert rig.rows(sql) == eager.rows(sql) != []
    finally:
        eager.close()


def test_it_ends_when_it_is_no_longer_wanted_and_goes_on_from_there(rig):
    run_full_sync(rig.parts, CDRS)
    before = left(rig)
    answers = iter([True, True, False])
    assert call_assembly.assemble_pending(rig.parts, lambda: next(answers)) == left(rig)
    assert before - 2 * 4 >= left(rig) > 0
    assert call_assembly.assemble_pending(rig.parts) == left(rig) == 0


def test_the_newest_come_first(rig):
    run_full_sync(rig.parts, CDRS)
    waits = rig.rows("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC")
    rig.mirror_db.write(lambda tx: rig.parts.call_store.assemble_backlog(tx, 4))
    assert {row[0] for row in rig.rows("SELECT leg_id FROM _legs")} >= {row[0] for row in waits[:4]}
    assert rig.rows("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC")[0] <= waits[4]


def test_a_leg_that_is_told_of_while_it_waits_is_put_together_with_its_call(rig):
    rig.play("transfer")
    number = len(rig.records("cdrs"))
    legs = [row["live_id"] for row in list(rig.records("cdrs").values())[number - 2 :]]
    rig.add_cdrs(20, parent_live_id=None, src="447700900199", calldate="2026-01-02 03:04:05")
    run_full_sync(rig.parts, CDRS)
    assert {(leg,) for leg in legs} <= set(rig.rows("SELECT leg_id FROM _legs_due"))
    rig.mirror_db.write(lambda tx: rig.parts.call_store.refresh(tx, legs[:1]))
    calls = rig.rows(
        "SELECT DISTINCT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))",
        json.dumps(legs),
    )
    assert len(calls) == 1
    before = rig.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}")
    call_assembly.assemble_pending(rig.parts)
    assert rig.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}") == before


def test_a_report_of_calls_is_not_complete_while_some_of_its_calls_wait(rig):
    run_full_sync(rig.parts, CDRS)
    with rig.mirror_db.read() as connection:
        oldest, newest = connection.execute("SELECT min(calldate), max(calldate) FROM cdrs").fetchone()
        until = clock.parse_utc(newest)
        begin = clock.parse_utc(oldest)
        assert "put together" in (completeness.explain_unfinished_calls(connection, begin, until) or "")
        assert completeness.explain_unfinished_calls(connection, until, until) is None
    call_assembly.assemble_pending(rig.parts)
    with rig.mirror_db.read() as connection:
        assert completeness.explain_unfinished_calls(connection, begin, until) is None
