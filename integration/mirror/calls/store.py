"""Store facts about legs: webhooks and polls.

Maintains `_leg_events` and `_leg_live`, and computes the calls of their legs at once
(`mirror/derived/calls`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from integration.core import clock
from integration.core.ids import MAX_ID, MIN_ID, id_list
from integration.core.json_records import JsonRecord
from integration.core.timestamps import parse_seconds
from integration.mirror.calls import backlog, reading
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.legs import END_STATES
from integration.mirror.derived import calls, due
from integration.mirror.derived.declaration import Rules
from integration.sqlite.transaction import Transaction

MAX_DUE_CALLS = 500
"""Due calls evaluated in one transaction."""

CLOCK_TOLERANCE_SECONDS = 300
"""Seconds by which a stored time may be later than the current poll.

A larger difference means that the local clock was set back.
"""

_get_event_values = attrgetter(*reading.EVENT_FIELDS)
"""The values of an event in the order of EVENT_COLUMNS.

`astuple` copies each value and takes a hundred times as long.
"""

_LEG_ID_INDEX = reading.EVENT_FIELDS.index("leg_id")


@dataclass(frozen=True, slots=True)
class CallStore:
    """Facts about legs in one mirror.db.

    Methods with a `Transaction` must run in a write job.
    """

    rules: Rules

    # --- store facts -------------------------------------------------------------------------------

    def add_events(self, tx: Transaction, events: Iterable[CallEvent]) -> int:
        """Store `call.*` webhooks and recompute the calls of their legs.

        Returns the number of new events.
        """
        stored_leg_ids = [event.leg_id for event in events if _store_event(tx, event)]
        self.refresh(tx, [leg_id for leg_id in stored_leg_ids if leg_id is not None])
        return len(stored_leg_ids)

    def apply_poll(self, tx: Transaction, live_calls: Iterable[JsonRecord], requested_at: str) -> None:
        """Store a complete response of `/calls`.

        `requested_at` is UTC text. Listed legs are live. Other open legs are stored as missing from this
        poll.
        """
        poll_time = parse_seconds(requested_at) or int(clock.unix())
        listed = _index_by_leg(live_calls)
        open_leg_ids = [row[0] for row in tx.execute("SELECT leg_id FROM _legs WHERE state <> 'ENDED'")]
        # Times later than this poll were stored before the local clock was set back. Left unchanged, they
        # would hide the end of the leg until the clock has caught up.
        tx.execute(
            "UPDATE _leg_live SET seen_at = min(seen_at, ?1), missing_at = min(missing_at, ?1),"
            " gone_at = min(gone_at, ?1) WHERE leg_id IN (SELECT value FROM json_each(?2))"
            " AND max(coalesce(seen_at, 0), coalesce(missing_at, 0), coalesce(gone_at, 0)) > ?1 + ?3",
            (poll_time, id_list({*open_leg_ids, *listed}), CLOCK_TOLERANCE_SECONDS),
        )
        _store_sightings(tx, listed, poll_time)
        absent_ids = [leg_id for leg_id in open_leg_ids if leg_id not in listed]
        tx.executemany(
            "INSERT INTO _leg_live (leg_id, missing_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE"
            " SET missing_at = max(coalesce(missing_at, 0), ?2)",
            [(leg_id, poll_time) for leg_id in absent_ids],
        )
        self.refresh(tx, [*listed, *absent_ids])

    def add_sightings(self, tx: Transaction, live_calls: Iterable[JsonRecord], requested_at: str) -> None:
        """Store live calls that the platform returned outside a poll.

        `requested_at` is UTC text. Other legs are unchanged.
        """
        seen = _index_by_leg(live_calls)
        _store_sightings(tx, seen, parse_seconds(requested_at) or int(clock.unix()))
        self.refresh(tx, seen)

    def record_leg_request(self, tx: Transaction, leg_id: int) -> None:
        """Record that the platform returned no record of a leg.

        This is no fact about the leg: its state is unchanged.
        """
        tx.execute("INSERT OR IGNORE INTO _leg_live (leg_id) VALUES (?)", (leg_id,))

    def end_missing_legs(
        self, tx: Transaction, leg_ids: Sequence[int], requested_at: str | None = None
    ) -> None:
        """End legs by inference, because their own paths returned 404.

        `requested_at` is UTC text; None is the present time.
        """
        poll_time = parse_seconds(requested_at) or int(clock.unix())
        tx.executemany(
            "INSERT INTO _leg_live (leg_id, gone_at) VALUES (?1, ?2) ON CONFLICT DO UPDATE"
            " SET gone_at = max(coalesce(gone_at, 0), ?2)",
            [(leg_id, poll_time) for leg_id in leg_ids],
        )
        self.refresh(tx, leg_ids)

    # --- compute calls -----------------------------------------------------------------------------

    def refresh(self, tx: Transaction, leg_ids: Iterable[int]) -> None:
        """Compute the calls of these legs now, because the rest of the transaction reads them."""
        leg_ids = backlog.add_neighbours(tx, leg_ids)
        calls.rebuild_calls(tx, [(leg_id, leg_id) for leg_id in leg_ids], self.rules)
        due.remove(tx, calls.LEGS.name, leg_ids)

    def evaluate_due_calls(self, tx: Transaction, now: float) -> int:
        """Compute calls whose timers are due at `now` (Unix seconds).

        Returns the number of calls; MAX_DUE_CALLS means that more may be due.
        """
        call_ids = due.take_timers(tx, calls.LEGS.name, now, MAX_DUE_CALLS)
        calls.rebuild_calls(tx, [(call_id, call_id) for call_id in call_ids], self.rules, now)
        return len(call_ids)


def _index_by_leg(live_calls: Iterable[JsonRecord]) -> dict[int, str]:
    """Return the texts of records of `/calls` by leg id."""
    return {
        leg_id: record.text
        for record in live_calls
        if (leg_id := reading.parse_int(record.values.get("id"))) is not None
    }


def _store_sightings(tx: Transaction, text_by_leg: dict[int, str], seen_at: int) -> None:
    """Store records of `/calls` by leg.

    A record that shows the end of its leg is kept.
    """
    tx.executemany(
        "INSERT INTO _leg_live (leg_id, seen_at, doc) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE"
        " SET seen_at = ?2, doc = ?3 WHERE seen_at IS NULL OR (seen_at <= ?2 AND coalesce("
        "CASE WHEN json_valid(doc) THEN upper(doc ->> 'state') END, '')"
        " NOT IN (SELECT value FROM json_each(?4)))",
        [(leg_id, seen_at, text, id_list(END_STATES)) for leg_id, text in text_by_leg.items()],
    )


def hash_payload(doc: str) -> str:
    """Return the column `body_hash` of an event."""
    return hashlib.sha256(doc.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _store_event(tx: Transaction, event: CallEvent) -> bool:
    """Store the event as a fact about its leg.

    Returns False if the event is already stored or names no leg.
    """
    values = [_to_storable(value) for value in _get_event_values(event)]
    if not isinstance(values[_LEG_ID_INDEX], int):
        return False
    columns = reading.EVENT_COLUMNS
    cursor = tx.execute(
        f"INSERT OR IGNORE INTO _leg_events ({columns}, body_hash, received_at) "
        f"VALUES ({', '.join('?' * (columns.count(',') + 3))})",
        (*values, hash_payload(event.doc), clock.unix()),
    )
    return bool(cursor.rowcount)


def _to_storable(value: object) -> object:
    """Return a value that SQLite can store.

    Integers beyond 64 bits become None, lone surrogates are replaced. The inbox has the original values.
    """
    if isinstance(value, int):
        return value if MIN_ID <= value <= MAX_ID else None
    return reading.parse_text(value) if isinstance(value, str) and not value.isascii() else value
