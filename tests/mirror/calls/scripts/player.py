"""Play the facts of a script into an application, and read the calls that result."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

from integration.catalogue import get_resource
from integration.core import clock
from integration.core.json_records import JsonRecord
from integration.mirror.calls.store import CallStore
from integration.mirror.records.upsert import upsert
from integration.sqlite.transaction import Transaction
from tests.mirror.calls.scripts.facts import (
    ACCOUNT,
    T0,
    Fact,
    NotFound,
    Poll,
    Record,
    Webhook,
    format_utc,
    interpret_webhook,
)
from tests.mirror.calls.scripts.script import Call, Script
from tests.support.application import TestApp

END = 3600
"""Seconds after T0 at which the result of a script is read. All waiting times have passed then."""

_MIRROR_TABLES = (
    "_leg_events", "_leg_live", "_legs", "_calls", "_merged_calls", "_changes", "cdrs", "voicemessages",
    "monitors", "calls", "_due",
)  # fmt: skip


class Player:
    """Plays scripts into one application, each after the deletion of the previous one."""

    def __init__(self, app: TestApp) -> None:
        self.app = app
        self._plays = itertools.count(1)
        for collection, records in ACCOUNT.items():
            app.put(collection, *records)

    def clear(self) -> None:
        """Delete all calls and facts; users and groups stay."""
        self.app.mirror_db.write(lambda tx: [tx.execute(f"DELETE FROM {table}") for table in _MIRROR_TABLES])

    def play_in_order(self, script: Script) -> list[tuple[float, list[dict[str, Any]]]]:
        """Play the facts at their times, webhooks through the inbox.

        Returns the rows of `_calls` at each time of `script.during`.
        """
        play = next(self._plays)
        found = []
        steps: list[tuple[float, int, Fact | None]] = [(fact.at, 0, fact) for fact in script.facts]
        steps += [(at, 1, None) for at in script.during]
        for at, _, fact in sorted(steps, key=lambda step: step[:2]):
            self.app.clock.freeze(float(T0 + at))
            if isinstance(fact, Webhook):
                # The inbox stores an event once, and scripts share ids: each play is a server of its own.
                body = fact.body | {"id": f"{play}-{fact.body['id']}"}
                self.app.context.inbox.receive(json.dumps(body).encode()).result(30)
                self.app.apply_webhooks()
            elif fact is not None:
                self.app.mirror_db.write(
                    lambda tx, fact=fact: add_fact(tx, self.app.context.call_store, fact)
                )  # type: ignore[misc]
            self._evaluate(at)
            if fact is None:
                found.append((at, self._list_rows()))
        self._finish()
        return found

    def play_shuffled(self, script: Script, seed: int) -> None:
        """Play the facts an hour later in random order, half of them twice, in several transactions."""
        chance = random.Random(seed)
        facts = [*script.facts, *chance.sample(list(script.facts), len(script.facts) // 2)]
        chance.shuffle(facts)
        self.app.clock.freeze(float(T0 + END))
        middle = chance.randint(0, len(facts))
        for part in (facts[:middle], facts[middle:]):
            self.app.mirror_db.write(
                lambda tx, part=part: [add_fact(tx, self.app.context.call_store, fact) for fact in part]
            )  # type: ignore[misc]
            self._finish()

    def list_calls(self, expected: Sequence[Call]) -> list[Call]:
        """Return the calls, each with the columns that the expected call of the same id names."""
        with self.app.mirror_db.read() as connection:
            legs = connection.execute("SELECT call_id, leg_id FROM _legs ORDER BY leg_id").fetchall()
        columns = {call.id: call.columns for call in expected}
        return [
            Call(
                id=row["id"],
                outcome=row["outcome"],
                legs=tuple(leg["leg_id"] for leg in legs if leg["call_id"] == row["id"]),
                wait=row["wait_seconds"],
                talk=row["talk_seconds"],
                hold=row["hold_seconds"],
                user=row["user_name"],
                party=row["party_e164"] or row["party"],
                direction=row["direction"],
                state=row["state"],
                columns={name: row[name] for name in columns.get(row["id"], ())},
            )
            for row in self._list_rows()
        ]

    def _finish(self) -> None:
        self.app.clock.freeze(float(T0 + END))
        self._evaluate(END)

    def _evaluate(self, at: float) -> None:
        self.app.mirror_db.write(
            lambda tx: self.app.context.call_store.evaluate_due_calls(tx, float(T0 + at))
        )

    def _list_rows(self) -> list[dict[str, Any]]:
        with self.app.mirror_db.read() as connection:
            return [dict(row) for row in connection.execute("SELECT * FROM _calls ORDER BY id")]


def add_fact(tx: Transaction, store: CallStore, fact: Fact) -> None:
    """Store a fact and compute the calls that it changes, as the inbox and the sync do."""
    if isinstance(fact, Webhook):
        store.add_events(tx, [interpret_webhook(fact)])
    elif isinstance(fact, Record):
        record = _make_record(fact.values)
        upsert(tx, get_resource(fact.collection), [record], source="sync", requested_at=clock.utc_text())
    elif isinstance(fact, Poll):
        store.apply_poll(tx, [_make_record(values) for values in fact.records], format_utc(fact.at))
    else:
        assert isinstance(fact, NotFound)
        store.end_missing_legs(tx, [fact.leg_id], format_utc(fact.at))


def _make_record(values: dict[str, Any]) -> JsonRecord:
    return JsonRecord(json.dumps(values), values)
