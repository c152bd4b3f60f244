"""Backlog of legs: an initial sync assembles the calls of history last."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from integration.core import clock
from integration.mirror.calls import backlog
from integration.mirror.derived import calls as derived_calls
from integration.mirror.derived import calls_process, due, rebuild
from integration.mirror.sync_state import completeness
from integration.sqlite.step_size import StepSize
from integration.sync.plan import PLAN
from integration.sync.reading import call_assembly, full_sync, page_store
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import children

CDRS = PLAN["cdrs"]

LEGS = "SELECT * FROM _legs ORDER BY leg_id"
CALLS = (
    "SELECT id, direction, state, outcome, started_at, answered_at, ended_at, wait_seconds, talk_seconds,"
    " party, user_id, legs, recordings, voicemails, cdrs, sources FROM _calls ORDER BY id"
)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    """Read seven records per page and commit three at a time.

    The calls of the seven newest records are assembled at once.
    """
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 7)
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 7)
    monkeypatch.setattr(page_store, "RECORDS_PER_STEP", 3)
    monkeypatch.setattr(page_store, "RECORDS_PER_STEP_WITH_CALLS", 3)
    limit_steps(monkeypatch, 4)
    monkeypatch.setattr(rebuild, "STEPS_PER_RUN", 3)
    monkeypatch.setattr(backlog, "NEIGHBOUR_COUNT", 5)


def limit_steps(monkeypatch, size):
    monkeypatch.setattr(rebuild, "StepSize", lambda _largest: StepSize(size))


def count_pending_legs(simulated):
    with simulated.mirror_db.read() as connection:
        state = backlog.get_state(connection)
    return state.remaining if state else 0


def rebuild_next(simulated, limit):
    rules = simulated.context.rules
    simulated.mirror_db.write(lambda tx: rebuild.rebuild_next(tx, derived_calls.LEGS, rules, limit))


def test_newest_calls_are_assembled_at_once_and_others_later_with_equal_results(
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
    assembled = {row[0] for row in simulated.rows("SELECT leg_id FROM _legs")}
    assert assembled >= set(newest)
    assert count_pending_legs(simulated) > 7
    reports = []
    assert (
        call_assembly.assemble_pending(
            simulated.context, on_progress=lambda done, total: reports.append((done, total))
        )
        == 0
    )
    assert reports[0][1] >= reports[-1][0] == reports[-1][1] > 7
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 10**9)
    eager = make_simulated(simulator=simulated.simulator)
    for policy in collections:
        run_full_sync(eager.context, policy)
    assert count_pending_legs(eager) == 0
    for sql in (LEGS, CALLS):
        assert simulated.rows(sql) == eager.rows(sql) != []


def test_a_cancelled_assembly_resumes_where_it_stopped(simulated):
    run_full_sync(simulated.context, CDRS)
    before = count_pending_legs(simulated)
    continues = iter([True, True, False])
    assert call_assembly.assemble_pending(simulated.context, lambda: next(continues)) == count_pending_legs(
        simulated
    )
    assert before - 2 * 4 >= count_pending_legs(simulated) > 0
    assert call_assembly.assemble_pending(simulated.context) == count_pending_legs(simulated) == 0


def test_a_pending_leg_with_an_event_is_assembled_with_its_entire_call(simulated):
    simulated.play("transfer")
    number = len(simulated.records("cdrs"))
    legs = [row["live_id"] for row in list(simulated.records("cdrs").values())[number - 2 :]]
    simulated.add_cdrs(20, parent_live_id=None, src="447700900199", calldate="2026-01-02 03:04:05")
    run_full_sync(simulated.context, CDRS)
    assert not {(leg,) for leg in legs} & set(simulated.rows("SELECT leg_id FROM _legs"))
    simulated.mirror_db.write(lambda tx: simulated.context.call_store.refresh(tx, legs[:1]))
    calls = simulated.rows(
        "SELECT DISTINCT call_id FROM _legs WHERE leg_id IN (SELECT value FROM json_each(?))",
        json.dumps(legs),
    )
    assert len(calls) == 1
    before = simulated.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}")
    call_assembly.assemble_pending(simulated.context)
    assert simulated.rows(f"SELECT * FROM _calls WHERE id = {calls[0][0]}") == before


def test_a_report_is_incomplete_while_legs_of_its_days_are_pending(simulated):
    run_full_sync(simulated.context, CDRS)
    with simulated.mirror_db.read() as connection:
        oldest, newest = connection.execute("SELECT min(calldate), max(calldate) FROM cdrs").fetchone()
        until = clock.parse_utc(newest)
        begin = clock.parse_utc(oldest)
        assert "not computed to calls yet" in (
            completeness.explain_unfinished_calls(connection, begin, until) or ""
        )
        assert completeness.explain_unfinished_calls(connection, until, until) is None
    call_assembly.assemble_pending(simulated.context)
    with simulated.mirror_db.read() as connection:
        assert completeness.explain_unfinished_calls(connection, begin, until) is None


def test_steps_that_store_records_are_as_large_as_their_time_allows(simulated, monkeypatch, stopped_clock):
    """A record takes 4 ms."""
    monkeypatch.setattr(full_sync, "page_limit", lambda failures: 100)
    monkeypatch.setattr(page_store, "RECORDS_PER_STEP_WITH_CALLS", 20)
    upsert, sizes = page_store.upsert, []

    def upsert_slowly(tx, resource, records, **options):
        stopped_clock.advance(len(records) * 0.004)
        sizes.append(len(records))
        return upsert(tx, resource, records, **options)

    monkeypatch.setattr(page_store, "upsert", upsert_slowly)
    run_full_sync(simulated.context, CDRS)
    assert sizes[:4] == [20, 8, 8, 8]
    assert sum(sizes) == len(simulated.records("cdrs")) == len(simulated.rows("SELECT id FROM cdrs"))


def list_processes():
    """Return the processes of this one that compute calls."""
    return [
        pid for pid in children(os.getpid()) if b"calls_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_second_process_computes_the_oldest_calls_of_many_and_may_end_at_any_time(
    simulated, make_simulated, monkeypatch, caplog, is_killed
):
    simulated.play("transfer")
    simulated.add_cdrs(200, parent_live_id=None)
    run_full_sync(simulated.context, CDRS)
    monkeypatch.setattr(call_assembly, "STEPS_PER_RUN", 0)
    monkeypatch.setattr(calls_process, "LEGS_PER_REQUEST", 20)
    take_oldest, store_calls, processes, received = due.take_oldest, calls_process.store_calls, [], []

    def take(tx, derived, limit, slot):
        if not processes:
            processes.extend(list_processes())
            if is_killed:
                os.kill(processes[0], signal.SIGKILL)
        return take_oldest(tx, derived, limit, slot)

    def store(tx, computed, rules, now):
        received.extend(computed.leg_rows)
        store_calls(tx, computed, rules, now)

    monkeypatch.setattr(due, "take_oldest", take)
    monkeypatch.setattr(calls_process, "store_calls", store)
    assert call_assembly.assemble_pending(simulated.context) == 0
    assert len(processes) == 1
    assert list_processes() == []
    legs = sorted(row[0] for row in simulated.rows("SELECT leg_id FROM _legs"))
    assert (received[:1], len(received) >= 20) == (([], False) if is_killed else ([legs[0]], True))
    assert len(received) < len(legs)
    assert ("has ended; the first one continues alone" in caplog.text) == is_killed
    eager = make_simulated(simulator=simulated.simulator)
    monkeypatch.setattr(full_sync, "IMMEDIATE_CALL_RECORDS", 10**9)
    run_full_sync(eager.context, CDRS)
    for sql in (LEGS, CALLS):
        assert simulated.rows(sql) == eager.rows(sql) != []
