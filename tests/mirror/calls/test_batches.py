"""Calls computed together, whatever the order of the legs and the size of a batch, have the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from functools import partial

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.dashboard.calls import live
from integration.mirror.calls import writing
from integration.mirror.derived import due, rebuild
from integration.mirror.derived.calls import CALLS, LEGS
from integration.sqlite.readers import open_readonly
from tests.benchmarks.tools.office import Office
from tests.benchmarks.tools.strangers import Strangers
from tests.mirror.calls.test_any_order import SCRIPTS
from tests.support.application import TestApp
from tests.support.examples import example_count
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    DDI,
    GROUP,
    OTHER,
    CallMirror,
    Phone,
    at,
    cdr,
    set_now,
    voicemail,
)

LEG = 101
DERIVED = ("_legs", "_calls", "_merged_calls", "_changes")
CONTEXTS = (None, "LOCAL_USER", "PSTN_CALL", f"RG-{GROUP}", "Queue", "IVR", "VM", "CONF", "NEW_THING")
UNTIL = date(2026, 9, 1)
"""Day after the last CDR of the accounts of the benchmark full_sync, before T0."""


def store_random_facts(mirror: CallMirror, generator: random.Random) -> None:
    """Store facts of 12 legs.

    Some legs are joined by root, parent or group, and some have webhooks.
    """
    for number, leg in enumerate(range(LEG, LEG + 12)):
        when, talked = generator.choice((0, 1, 21, 400)) + number // 4 * 1000, generator.choice((0, 0, 9))
        more = {
            "src": generator.choice((CALLER, OTHER, "1001", "", "Blocked", "alice@example.com")),
            "dst": generator.choice((DDI, DDI, "1002", OTHER)),
            "context": generator.choice(CONTEXTS),
            "destination": generator.choice(("in", "in", "out")),
            "root_live_id": generator.choice((None, None, leg, leg, leg - 1, 99)),
            "parent_live_id": generator.choice((None, None, None, leg - 1)),
            "disposition": generator.choice(("CONNECTED", "VM")) if talked else "NO ANSWER",
            "user_id": generator.choice((None, ANN, BOB)),
            "calldate": generator.choice((at(when), at(when), at(when), None, "0000-00-00 00:00:00")),
        }
        for number_of_record in range(generator.choice((1, 1, 1, 1, 2))):
            mirror.put(
                "cdrs",
                cdr(10 * leg + number_of_record, leg, when, 20 + talked, talked, **more),
                defer_calls=True,
            )
        if generator.random() < 0.2:
            mirror.put("monitors", {"id": leg, "live_id": leg, "user_id": CAT}, defer_calls=True)
        if generator.random() < 0.1:
            mirror.put(
                "voicemessages", voicemail(leg, leg, generator.choice((None, leg + 1, 99))), defer_calls=True
            )
        if generator.random() < 0.2:
            phone = Phone(leg, generator.choice((ANN, None)), started=when)
            call_event = phone.event(generator.choice(("ringing", "missed")), when + 1)
            mirror.mirror_db.write(
                lambda tx, call_event=call_event: mirror.store.add_events(tx, [call_event])
            )


def store_account(mirror: CallMirror, generator: random.Random, account: Office | Strangers) -> None:
    """Store 24 CDRs of an account, in any order."""
    first = generator.randrange(1, account.cdrs - 24)
    numbers = list(range(first, first + 24))
    generator.shuffle(numbers)
    for number in numbers:
        mirror.put("cdrs", orjson.loads(account.cdr(number)), defer_calls=True)


def store_worked_example(mirror: CallMirror, generator: random.Random) -> None:
    """Store one of SCRIPTS that has facts."""
    mirror.apply(*generator.choice([script for script in SCRIPTS.values() if script]))


SOURCES: dict[str, Callable[[CallMirror, random.Random], None]] = {
    "random facts": store_random_facts,
    "a worked example": store_worked_example,
    "an office": partial(store_account, account=Office(3000, UNTIL)),
    "strangers": partial(store_account, account=Strangers(3000, UNTIL)),
}


def list_legs(mirror: CallMirror) -> list[int]:
    with mirror.mirror_db.read() as connection:
        rows = connection.execute(
            "SELECT live_id FROM cdrs UNION SELECT leg_id FROM _leg_events UNION SELECT leg_id FROM _leg_live"
        )
        return [row[0] for row in rows]


def compute_backlog(mirror: CallMirror, batch_size: int) -> None:
    while LEGS.name in (rebuild.describe_due(mirror.mirror_db) or {}):
        mirror.mirror_db.write(lambda tx: rebuild.rebuild_next(tx, LEGS, mirror.store.rules, batch_size))


def delete_calls(mirror: CallMirror) -> None:
    mirror.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {name}") for name in DERIVED])


@example_count(24, exhaustive=300)
@given(st.sampled_from(list(SOURCES)), st.integers(0, 2**32), st.integers(1, 30))
def test_any_order_and_any_size_of_a_batch_gives_the_same_rows(
    mirror: CallMirror, source: str, seed: int, batch_size: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_now(monkeypatch, 100 * 3600)
        mirror.clear()
        generator = random.Random(seed)
        SOURCES[source](mirror, generator)
        legs = list_legs(mirror)
        delete_calls(mirror)
        mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, legs))
        expected = mirror.state()
        assert expected[0]["direction"]
        delete_calls(mirror)
        order = generator.sample(legs, len(legs))
        for begin in range(0, len(order), batch_size):
            mirror.mirror_db.write(
                lambda tx, begin=begin: mirror.store.refresh(tx, order[begin : begin + batch_size])
            )
        assert mirror.state() == expected, "by refresh, in any order"
        for repetition in ("new", "stored"):
            if repetition == "new":
                delete_calls(mirror)
            mirror.mirror_db.write(lambda tx: due.mark(tx, LEGS.name, [LEGS.all_keys]))
            compute_backlog(mirror, batch_size)
            assert mirror.state() == expected, f"by the backlog, of {repetition} calls"


CHANGES = (
    "DELETE FROM cdrs WHERE id % 3 = ?",
    "UPDATE cdrs SET billsec = 0 WHERE id % 3 = ?",
    "UPDATE cdrs SET live_id = CAST(live_id AS TEXT) WHERE id % 3 = ?",
    "UPDATE cdrs SET live_id = live_id + 1, parent_live_id = NULL WHERE id % 3 = ?",
    "DELETE FROM monitors WHERE id % 3 = ?",
    "UPDATE voicemessages SET parent_live_id = live_id + 1 WHERE id % 3 = ?",
    "DELETE FROM _leg_events WHERE leg_id % 3 = ?",
    "UPDATE _leg_live SET gone_at = seen_at WHERE leg_id % 3 = ?",
    "UPDATE users SET ext = id % 7 WHERE id % 3 = ?",
    "UPDATE ringgroups SET ring_time = ring_time + 30 WHERE id % 3 = ?",
    "INSERT OR IGNORE INTO _contact_numbers VALUES ('+447700900123', ?, 'Ann Example')",
)
"""Statements that change facts, or what many calls depend on. Parameter: 0, 1 or 2."""


@example_count(24, exhaustive=300)
@given(st.sampled_from(list(SOURCES)), st.integers(0, 2**32))
def test_calls_follow_changes_by_any_writer(call_app: TestApp, source: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_now(monkeypatch, 100 * 3600)
        mirror, generator = CallMirror(call_app), random.Random(seed)
        mirror.clear_all()
        mirror.seed()
        SOURCES[source](mirror, generator)
        for _ in range(6):
            sql, rest = generator.choice(CHANGES), generator.randrange(3)
            mirror.mirror_db.write(lambda tx, sql=sql, rest=rest: tx.execute(sql, (rest,)))
        rebuild.rebuild_due(mirror.mirror_db, mirror.store.rules)
        found = mirror.state()
        with open_readonly(mirror.mirror_db.path) as connection:
            assert list(rebuild.find_differences(connection, CALLS, mirror.store.rules, sampled=False)) == []
        delete_calls(mirror)
        mirror.recompute()
        assert found == mirror.state()


def test_a_caller_waited_alone_if_the_facts_of_the_user_in_the_conference_are_deleted(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    mirror.apply(*SCRIPTS["conference with a user"])
    assert [tuple(row) for row in mirror.calls("id", "outcome")] == [(101, "answered"), (111, "internal")]
    mirror.mirror_db.write(lambda tx: tx.execute("DELETE FROM _leg_events WHERE leg_id = 111"))
    rebuild.rebuild_due(mirror.mirror_db, mirror.store.rules)
    assert [tuple(row) for row in mirror.calls("id", "outcome")] == [(101, "missed")]


def test_new_calls_of_the_past_are_announced_as_one_change_and_have_different_change_numbers(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live.RECENT_PERIOD.total_seconds() <= writing.HISTORY_AGE_SECONDS, (
        "each call that the live page can show is announced on its own"
    )
    set_now(monkeypatch, 100 * 3600)
    for leg, when in ((101, 0), (102, 500), (103, 99 * 3600)):
        mirror.put("cdrs", cdr(leg, leg, when, 20, 9), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101, 102, 103]))
    assert mirror.changes() == [("call", "103"), ("history", "2")]
    numbers = dict(mirror.calls("id", "change_no"))
    with mirror.mirror_db.read() as connection:
        assert max(numbers.values()) == connection.execute("SELECT max(id) FROM _changes").fetchone()[0]
    assert len(set(numbers.values())) == 3
    for leg, when in ((101, 0), (102, 500), (103, 99 * 3600)):
        mirror.put("cdrs", cdr(100 + leg, leg, when, 90, 80), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101, 102, 103]))
    assert sorted(mirror.changes()[2:]) == [("call", "103"), ("history", "2")], (
        "changes of stored calls of the past, as by a sync of recordings, are one change too"
    )
    changed_numbers = dict(mirror.calls("id", "change_no"))
    assert min(changed_numbers.values()) > max(numbers.values())
    assert len(set(changed_numbers.values())) == 3


def test_a_call_that_ends_in_the_past_is_announced_on_its_own(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live page may show it as talking until its record arrives."""
    set_now(monkeypatch, 0)
    mirror.put("cdrs", cdr(101, 101, 0, 20, 9), defer_calls=True)
    mirror.mirror_db.write(lambda tx: tx.execute("DELETE FROM _changes"))
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    mirror.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET state = 'talking', ended_at = NULL"))
    set_now(monkeypatch, 100 * 3600)
    mirror.put("cdrs", cdr(201, 101, 0, 90, 80), defer_calls=True)
    mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, [101]))
    assert mirror.changes()[-1] == ("call", "101")
