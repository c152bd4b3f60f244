"""Calls that a second process computes have the same rows, whatever is written while it computes them."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.mirror.calls.computed_calls import ComputedCalls
from integration.mirror.derived import calls_process, due, rebuild
from integration.mirror.derived.calls import CALLS, LEGS
from integration.mirror.derived.calls_process import Request, RequestedCalls, compute_response
from integration.sqlite.readers import open_readonly
from tests.mirror.calls.test_batches import CHANGES, SOURCES, delete_calls, list_legs
from tests.support.application import TestApp
from tests.support.examples import example_count
from tests.support.payloads.call_facts import CallMirror, cdr, set_now

NAMES = (
    "UPDATE users SET first_name = 'Dora' WHERE id % 3 = ?",
    "INSERT OR IGNORE INTO _contact_numbers VALUES ('+447700900101', ?, 'Eva Example')",
) * 4
"""Statements that change names of calls. Parameter: 0, 1 or 2."""


class Responses:
    """A process that reads when a request arrives, and responds after a random number of polls."""

    def __init__(self, path: Path, generator: random.Random) -> None:
        self.responses: deque[list[ComputedCalls]] = deque()
        self.path, self.generator = path, generator

    def send(self, request: Request) -> None:
        with open_readonly(self.path) as connection:
            self.responses.append(compute_response(connection, request))

    def has_response(self, seconds: float) -> bool:
        return bool(self.responses) and (seconds > 0 or self.generator.random() < 0.5)

    def receive(self) -> list[ComputedCalls]:
        return self.responses.popleft()

    def close(self) -> None:
        self.responses.clear()


@example_count(40, exhaustive=600)
@given(st.sampled_from(list(SOURCES)), st.integers(0, 2**32), st.booleans())
def test_calls_are_the_same_whatever_is_written_while_they_are_computed(
    call_app: TestApp, source: str, seed: int, are_stored: bool
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_now(monkeypatch, 100 * 3600)
        mirror, generator = CallMirror(call_app), random.Random(seed)
        monkeypatch.setattr(calls_process, "LEGS_PER_REQUEST", generator.choice((1, 3)))
        mirror.clear_all()
        mirror.seed()
        SOURCES[source](mirror, generator)
        rules, legs = mirror.store.rules, list_legs(mirror)
        if not are_stored:
            delete_calls(mirror)
        mirror.mirror_db.write(lambda tx: due.mark_all(tx, LEGS))
        requested = RequestedCalls(Responses(mirror.mirror_db.path, generator), rules)
        rules.call_listeners.append(requested.record_written)
        actions = ["response"] * 8 + ["compute", "compute all", "refresh", *["change"] * 3]
        while requested.is_waiting or LEGS.name in (rebuild.describe_due(mirror.mirror_db) or {}):
            action = generator.choice(actions)
            if action == "response":
                mirror.mirror_db.write(requested.write_next)
            elif action == "compute":
                mirror.mirror_db.write(
                    lambda tx: (rebuild.rebuild_next(tx, LEGS, rules, 2), requested.write_next(tx))
                )
            elif action == "compute all":
                rebuild.rebuild_due(mirror.mirror_db, rules, (LEGS, CALLS))
            elif action == "refresh":
                mirror.mirror_db.write(lambda tx: mirror.store.refresh(tx, generator.sample(legs, 1)))
            else:
                sql, rest = generator.choice((*CHANGES, *NAMES)), generator.randrange(3)
                mirror.mirror_db.write(lambda tx, sql=sql, rest=rest: tx.execute(sql, (rest,)))
                actions.remove("change")
        rules.call_listeners.remove(requested.record_written)
        rebuild.rebuild_due(mirror.mirror_db, rules)
        found = mirror.state()
        delete_calls(mirror)
        mirror.recompute()
        assert found == mirror.state()


def test_a_request_without_a_response_is_due_again(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 100 * 3600)
    for leg in (101, 102):
        mirror.put("cdrs", cdr(leg, leg, leg, 20, 9), defer_calls=True)
    mirror.mirror_db.write(lambda tx: due.mark_all(tx, LEGS))
    requested = RequestedCalls(Responses(mirror.mirror_db.path, random.Random(1)), mirror.store.rules)
    mirror.mirror_db.write(requested.write_next)
    due_now = rebuild.describe_due(mirror.mirror_db) or {}
    assert due_now["legs"]["count"] == 2, "what is being computed counts as due"
    rebuild.rebuild_due(mirror.mirror_db, mirror.store.rules)
    assert mirror.calls() == []
    # As the next assembly does, if this process has ended.
    calls_process.take_back(mirror.mirror_db)
    rebuild.rebuild_due(mirror.mirror_db, mirror.store.rules)
    assert mirror.calls("id") == [(101,), (102,)]
