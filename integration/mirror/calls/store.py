"""Facts in, calls out: keeps `_leg_events`, `_leg_live`, `_legs`, `_calls`, `_call_ids` true.

Whatever a fact is and whenever it comes, `refresh` reads all facts of the legs it may touch, computes their
calls anew and writes what differs. So the outcome depends on the facts alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

from integration.core import clock
from integration.core.phone_numbers import Numbers
from integration.core.timestamps import seconds
from integration.mirror.calls import backlog, reading
from integration.mirror.calls import contact_numbers as contacts
from integration.mirror.calls.affected_legs import Region
from integration.mirror.calls.directory import Directory
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.fast_path import call_of, is_alone
from integration.mirror.calls.joins import Joined, join
from integration.mirror.calls.leg_view import Knowledge, View
from integration.mirror.calls.outcomes import CallRow, evaluate
from integration.mirror.calls.rules import Rules
from integration.mirror.calls.schema import TABLES
from integration.mirror.calls.writing import write_calls
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

__all__ = ["TABLES", "CallStore"]

CHUNK = 2000
"""Legs that are rebuilt at a time: bounds memory and the length of lists in SQL."""

TICK = 500

CLOCK_SET_BACK = 300
"""Seconds by which a mark may be later than a newer poll, before the clock must have been set back."""

_LEG_ID = reading.EVENT_COLUMNS.split(", ").index("leg_id")


class LiveDocument(Protocol):
    """A record of `/calls`: its text as received and its values by name."""

    @property
    def text(self) -> str: ...
    @property
    def values(self) -> dict[str, Any]: ...


class CallStore:
    """The calls of one mirror.db. Every method that takes a `Transaction` belongs into a write job.

    `on_ended(tx, leg_ids)` is called in the same transaction for legs that have just been found ended, so
    that they leave the table of live calls.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        numbers: Numbers | None = None,
        on_ended: Callable[[Transaction, list[int]], None] | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self.numbers = numbers or Numbers()
        self._on_ended = on_ended
        self._directory = Directory()
        self._directory_version: tuple[object, ...] | None = None
        self._noted_version: tuple[object, ...] | None = None

    # --- facts in ----------------------------------------------------------------------------------

    def add_event(self, tx: Transaction, event: CallEvent) -> bool:
        """Keep one `call.*` webhook and rebuild what it touches. False where it was known already."""
        return bool(self.add_events(tx, [event]))

    def add_events(self, tx: Transaction, events: Iterable[CallEvent]) -> int:
        """Keep many; what they touch is rebuilt once. Returns how many were not known already."""
        kept = [event.leg_id for event in events if _keep(tx, event)]
        self.refresh(tx, [leg_id for leg_id in kept if leg_id is not None])
        return len(kept)

    def poll(self, tx: Transaction, live: Iterable[LiveDocument], asked_at: str) -> None:
        """A complete answer of `/calls`, asked at `asked_at`: what it lists is alive, other open legs are
        missing from it."""
        asked = seconds(asked_at) or int(clock.unix())
        listed: dict[int, str] = {}
        for document in live:
            leg_id = reading.whole(document.values.get("id"))
            if leg_id is not None:
                listed[leg_id] = document.text
        open_legs = [row[0] for row in tx.execute("SELECT leg_id FROM _legs WHERE state <> 'ENDED'")]
        # A mark from after this poll was made before our clock was set back; kept, it would hide the leg's
        # end for as long as the clock was ahead.
        tx.execute(
            "UPDATE _leg_live SET seen_at = min(seen_at, ?1), missing_at = min(missing_at, ?1),"
            " gone_at = min(gone_at, ?1) WHERE leg_id IN (SELECT value FROM json_each(?2))"
            " AND max(coalesce(seen_at, 0), coalesce(missing_at, 0), coalesce(gone_at, 0)) > ?1 + ?3",
            (asked, reading.ids_json({*open_legs, *listed}), CLOCK_SET_BACK),
        )
        tx.executemany(
            "INSERT INTO _leg_live (leg_id, seen_at, doc) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE"
            " SET seen_at = ?2, doc = ?3 WHERE seen_at IS NULL OR seen_at <= ?2",
            [(leg_id, asked, text) for leg_id, text in listed.items()],
        )
        absent = [leg_id for leg_id in open_legs if leg_id not in listed]
        tx.executemany(
            "INSERT INTO _leg_live (leg_id, missing_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE"
            " SET missing_at = max(coalesce(missing_at, 0), ?2)",
            [(leg_id, asked) for leg_id in absent],
        )
        self.refresh(tx, [*listed, *absent])

    def gone(self, tx: Transaction, leg_ids: Sequence[int], asked_at: str | None = None) -> None:
        """The legs' own paths answered 404: they have ended, as far as anybody can tell."""
        asked = seconds(asked_at) or int(clock.unix())
        tx.executemany(
            "INSERT INTO _leg_live (leg_id, gone_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE"
            " SET gone_at = max(coalesce(gone_at, 0), ?2)",
            [(leg_id, asked) for leg_id in leg_ids],
        )
        self.refresh(tx, leg_ids)

    def contacts_changed(self, tx: Transaction, contact_ids: Sequence[int]) -> None:
        """Contacts were added, changed or removed: their numbers are read again, and calls with these
        numbers get their names at the next ticks."""
        contacts.renew(tx, contact_ids, self.numbers)

    # --- calls out ---------------------------------------------------------------------------------

    def refresh(self, tx: Transaction, leg_ids: Iterable[int], now: float | None = None) -> None:
        """Rebuild the calls of these legs from their facts; announces each call that changed, and as one the
        new ones that are long over.

        To be called, in the same transaction, after CDRs, monitors or voice messages of the legs were
        written (for a voice message, of its `live_id` and `parent_live_id`).
        """
        moment = clock.unix() if now is None else now
        ids = iter(sorted(backlog.with_neighbours(tx, leg_ids)))
        while chunk := list(islice(ids, CHUNK)):
            self._rebuild(tx, chunk, moment)

    def catch_up(self, tx: Transaction, limit: int) -> int:
        """Put together the calls of the newest legs that wait (backlog.py), `limit` legs of them. Returns of
        how many; 0 where none waits."""
        legs = backlog.newest(tx, limit)
        if legs:
            self._rebuild(tx, legs, clock.unix())
        return len(legs)

    def tick(self, tx: Transaction, now: float) -> int:
        """Evaluate again what time alone may have changed, what fell due last first: a backlog of renamed
        calls must not hold up a missed one. Returns how many were; `TICK` of them: there may be more."""
        self._current_directory(tx)
        due = [
            row[0]
            for row in tx.execute(
                "SELECT id FROM _calls WHERE due_at <= ? ORDER BY due_at DESC LIMIT ?", (now, TICK)
            )
        ]
        self.refresh(tx, _legs_of_calls(tx, due), now)
        return len(due)

    def rebuild_all(self, mirror: Database) -> int:
        """Compute every call anew, a chunk of legs per transaction. Returns the number of legs."""
        after, count = -(2**63), 0
        while True:
            start = after

            def job(tx: Transaction, start: int = start) -> list[int]:
                chunk = [
                    row[0]
                    for row in tx.execute(
                        "SELECT id FROM (SELECT leg_id AS id FROM _legs UNION SELECT leg_id FROM _leg_events"
                        " UNION SELECT leg_id FROM _leg_live WHERE seen_at IS NOT NULL"
                        " UNION SELECT CAST(live_id AS INTEGER) FROM cdrs WHERE live_id IS NOT NULL)"
                        " WHERE id > ? ORDER BY id LIMIT ?",
                        (start, CHUNK),
                    )
                ]
                self.refresh(tx, chunk)
                return chunk

            done = mirror.write(job)
            count += len(done)
            if not done:
                return count
            after = done[-1]

    # --- inside ------------------------------------------------------------------------------------

    def _rebuild(self, tx: Transaction, ids: Sequence[int], now: float) -> None:
        knowledge = Knowledge(self._current_directory(tx), self.numbers, {}, self.rules)
        region = Region(tx, knowledge)
        region.grow(ids)
        joined = join(region.links.values())
        knowledge = replace(knowledge, names=contacts.names(tx, region.parties()))
        rows = [_row(call, [region.views[id_] for id_ in call.legs], knowledge, now) for call in joined]
        region.write_legs(joined)
        if self._on_ended is not None and region.just_ended:
            self._on_ended(tx, sorted(region.just_ended))
        write_calls(tx, rows, joined, region, now)
        backlog.done(tx, region.views.keys() | region.void)

    def _current_directory(self, tx: Transaction) -> Directory:
        version = reading.directory_version(tx.connection)
        if version != self._directory_version:
            self._directory = reading.directory(tx.connection, self.numbers)
            self._directory_version = version
        if version != self._noted_version:
            if _remember(tx, self._directory):
                # People came to be known, or changed: who answered what may read differently now.
                tx.execute("UPDATE _calls SET due_at = 0")
            # What a job had noted that fails is not.
            tx.after_commit(partial(setattr, self, "_noted_version", version))
        return self._directory


def _keep(tx: Transaction, event: CallEvent) -> bool:
    """Store the event as a fact about its leg. False where it was known already, or names no leg."""
    values = [_storable(value) for value in astuple(event)]
    if not isinstance(values[_LEG_ID], int):
        return False
    body_hash = hashlib.sha256(event.doc.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    columns = reading.EVENT_COLUMNS
    cursor = tx.execute(
        f"INSERT OR IGNORE INTO _leg_events ({columns}, body_hash, received_at) "
        f"VALUES ({', '.join('?' * (columns.count(',') + 3))})",
        (*values, body_hash, clock.unix()),
    )
    return bool(cursor.rowcount)


def _storable(value: object) -> object:
    """None for an integer beyond 64 bits; text without lone surrogates: the inbox has them as received."""
    if isinstance(value, int):
        return reading.whole(value)
    return reading.text(value) if isinstance(value, str) and not value.isascii() else value


def _remember(tx: Transaction, directory: Directory) -> bool:
    """True where this is not the directory that calls were last computed with, by any process."""
    fingerprint = hashlib.sha256(repr(astuple(directory)).encode()).hexdigest()
    row = tx.execute("SELECT fingerprint FROM _call_directory").fetchone()
    if row is not None and row[0] == fingerprint:
        return False
    tx.execute("INSERT OR REPLACE INTO _call_directory VALUES (0, ?)", (fingerprint,))
    return True


def _row(call: Joined, views: Sequence[View], knowledge: Knowledge, now: float) -> CallRow:
    if is_alone(call, views[0]):
        return call_of(call, views[0], knowledge, now)
    return evaluate(call, views, knowledge, now)


def _legs_of_calls(tx: Transaction, call_ids: Sequence[int]) -> Iterator[int]:
    rows = tx.execute(
        "SELECT leg_id FROM _legs WHERE call_id IN (SELECT value FROM json_each(?))",
        (reading.ids_json(call_ids),),
    ).fetchall()
    return (row[0] for row in rows)
