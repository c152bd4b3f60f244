"""Store facts about legs and compute calls from them.

Maintains `_leg_events`, `_leg_live`, `_legs`, `_calls` and `_call_ids`. After each fact `refresh` reads all
facts of the legs that the fact can affect, recomputes their calls and writes the rows that differ. The result
therefore depends only on the facts.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, fields, replace
from functools import partial
from itertools import islice
from operator import attrgetter

from integration.core import clock
from integration.core.ids import MAX_ID, MIN_ID, id_list
from integration.core.json_records import JsonRecord
from integration.core.phone_numbers import PhoneNumbers
from integration.core.timestamps import parse_seconds
from integration.mirror.calls import backlog, reading
from integration.mirror.calls.affected_legs import AffectedLegs
from integration.mirror.calls.directory import Directory
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.joins import JoinedCall
from integration.mirror.calls.leg_view import ReferenceData
from integration.mirror.calls.legs import END_STATES
from integration.mirror.calls.outcomes import CallRow, evaluate_call
from integration.mirror.calls.rules import CallRules
from integration.mirror.calls.schema import TABLES
from integration.mirror.calls.writing import find_difference, is_due, load_call_rows, write_calls
from integration.mirror.derived import contact_numbers
from integration.sqlite.transaction import Transaction

__all__ = ["TABLES", "CallStore"]

BATCH_SIZE = 2000
"""Legs recomputed together. Limits memory and the length of lists in SQL."""

MAX_DUE_CALLS = 500
"""Due calls evaluated in one transaction."""

CLOCK_TOLERANCE_SECONDS = 300
"""Seconds by which a stored time may be later than the current poll.

A larger difference means that the local clock was set back.
"""

_get_event_values = attrgetter(*(field.name for field in fields(CallEvent)))
"""The values of an event in the order of EVENT_COLUMNS.

`astuple` copies each value and takes a hundred times as long.
"""

_LEG_ID_INDEX = reading.EVENT_COLUMNS.split(", ").index("leg_id")


class CallStore:
    """Calls of one mirror.db.

    Methods with a `Transaction` must run in a write job. `on_ended(tx, leg_ids)` is called in the same
    transaction for legs that were found ended, so that they are removed from the table of live calls.
    """

    def __init__(
        self,
        rules: CallRules | None = None,
        phone_numbers: PhoneNumbers | None = None,
        on_ended: Callable[[Transaction, list[int]], None] | None = None,
    ) -> None:
        self.rules = rules or CallRules()
        self.phone_numbers = phone_numbers or PhoneNumbers()
        self._on_ended = on_ended
        self._directory = Directory()
        self._directory_version: tuple[object, ...] | None = None
        self._committed_version: tuple[object, ...] | None = None

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

    def refresh(self, tx: Transaction, leg_ids: Iterable[int], now: float | None = None) -> None:
        """Recompute the calls of these legs from their facts.

        Announces each changed call, and new calls that ended more than 12 hours ago as one change. Must be
        called in the same transaction after CDRs, recordings or voicemail messages of the legs were written.
        For a voicemail message these are the legs of its `live_id` and `parent_live_id`. `now` is Unix
        seconds.
        """
        evaluation_time = clock.unix() if now is None else now
        ids = iter(sorted(backlog.add_neighbours(tx, leg_ids)))
        while chunk := list(islice(ids, BATCH_SIZE)):
            self._rebuild(tx, chunk, evaluation_time)

    def assemble_backlog(self, tx: Transaction, limit: int) -> int:
        """Compute the calls of the newest `limit` legs of the backlog (backlog.py).

        Returns the number of legs; 0 if the backlog is empty.
        """
        leg_ids = backlog.list_newest(tx, limit)
        if leg_ids:
            self._rebuild(tx, leg_ids, clock.unix())
        return len(leg_ids)

    def evaluate_due_calls(self, tx: Transaction, now: float) -> int:
        """Re-evaluate calls that are due at `now` (Unix seconds).

        The latest due time is first, so that many renamed calls, which are due at 0, do not delay a missed
        call. Returns the number of calls; MAX_DUE_CALLS means that more may be due.
        """
        self._load_current_directory(tx)
        due_ids = [
            row[0]
            for row in tx.execute(
                "SELECT id FROM _calls WHERE due_at <= ? ORDER BY due_at DESC LIMIT ?", (now, MAX_DUE_CALLS)
            )
        ]
        self.refresh(tx, _list_legs_of_calls(tx, due_ids), now)
        return len(due_ids)

    # --- verify calls ------------------------------------------------------------------------------

    def load_verified_directory(self, connection: sqlite3.Connection) -> Directory | None:
        """Return the directory with which all calls were computed.

        None if it has changed since: all calls are then due, and are computed with the present one.
        """
        directory = reading.load_directory(connection, self.phone_numbers)
        row = connection.execute("SELECT fingerprint FROM _call_directory").fetchone()
        return directory if row is None or row[0] == _compute_fingerprint(directory) else None

    def find_differences(
        self, connection: sqlite3.Connection, leg_ids: Sequence[int], directory: Directory
    ) -> dict[int, str]:
        """Compute the ended calls of these legs from their facts; write nothing.

        Returns a predicate for each call that differs from its rows, by one of its legs. Ignores calls that
        are due or in the backlog, because they will be computed again.
        """
        tx, now = Transaction(connection, {}, {}), clock.unix()
        affected_legs, joined_calls, reference_data = self._load_calls(tx, leg_ids, directory, is_check=True)
        stored_rows = load_call_rows(tx, [call.id for call in joined_calls])
        pending = backlog.find_pending(connection, affected_legs.views)
        lost_legs = affected_legs.ids_without_facts & affected_legs.previous_rows.keys()
        differences = dict.fromkeys(lost_legs, "is stored, but no event, poll or CDR reports it")
        for call in joined_calls:
            rows = self._evaluate_by_all_rules(call, affected_legs, reference_data, now)
            stored_row = stored_rows.get(call.id)
            row = next(rows)
            if row.state != "ended" or not pending.isdisjoint(call.leg_ids) or is_due(stored_row, now):
                continue
            if stored_row is None:
                differences[call.leg_ids[0]] = "is not stored, but has events or CDRs"
            elif changed_leg := next(affected_legs.make_changed_rows(call), None):
                differences[call.leg_ids[0]] = f"leg {changed_leg[0]} differs from its events and CDRs"
            elif (column := find_difference(row, stored_row)) is not None and all(
                find_difference(other_row, stored_row) for other_row in rows
            ):
                differences[call.leg_ids[0]] = f"{column} differs from its events and CDRs"
        return differences

    # --- private -----------------------------------------------------------------------------------

    def _rebuild(self, tx: Transaction, leg_ids: Sequence[int], now: float) -> None:
        affected_legs, joined_calls, reference_data = self._load_calls(
            tx, leg_ids, self._load_current_directory(tx)
        )
        rows = [
            evaluate_call(call, affected_legs.list_views(call), reference_data, now) for call in joined_calls
        ]
        affected_legs.write_legs(joined_calls)
        if self._on_ended is not None and affected_legs.just_ended:
            self._on_ended(tx, sorted(affected_legs.just_ended))
        write_calls(tx, rows, joined_calls, affected_legs, now)
        backlog.remove(tx, affected_legs.views.keys() | affected_legs.ids_without_facts)

    def _load_calls(
        self, tx: Transaction, leg_ids: Sequence[int], directory: Directory, is_check: bool = False
    ) -> tuple[AffectedLegs, list[JoinedCall], ReferenceData]:
        """Load and join all legs that can share a call."""
        reference_data = ReferenceData(directory, self.phone_numbers, {}, self.rules)
        affected_legs = AffectedLegs(tx, reference_data, is_check)
        joined_calls = affected_legs.load(leg_ids)
        contact_names = contact_numbers.find_names(tx, affected_legs.list_party_numbers())
        return (
            affected_legs,
            joined_calls,
            replace(reference_data, contact_names=contact_names),
        )

    def _evaluate_by_all_rules(
        self, call: JoinedCall, affected_legs: AffectedLegs, reference_data: ReferenceData, now: float
    ) -> Iterator[CallRow]:
        """Evaluate a call by the present rules, then by other rules.

        The other rules have other values of `calls.short_seconds`: a call keeps the outcome by the value with
        which it was computed.
        """
        for rules in (
            self.rules,
            replace(self.rules, short_seconds=0),
            replace(self.rules, short_seconds=MAX_ID),
        ):
            yield evaluate_call(
                call, affected_legs.list_views(call), replace(reference_data, rules=rules), now
            )

    def _load_current_directory(self, tx: Transaction) -> Directory:
        version = reading.get_directory_version(tx.connection)
        if version != self._directory_version:
            self._directory = reading.load_directory(tx.connection, self.phone_numbers)
            self._directory_version = version
        if version != self._committed_version:
            if _store_fingerprint(tx, self._directory):
                # Users or groups changed, so other calls may count as answered by a person.
                tx.execute("UPDATE _calls SET due_at = 0")
            # Not before the commit: a failed job does not store the fingerprint.
            tx.after_commit(partial(setattr, self, "_committed_version", version))
        return self._directory


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


def _store_fingerprint(tx: Transaction, directory: Directory) -> bool:
    """Store the fingerprint of the directory.

    Returns whether the fingerprint differs from the stored one.
    """
    fingerprint = _compute_fingerprint(directory)
    row = tx.execute("SELECT fingerprint FROM _call_directory").fetchone()
    if row is not None and row[0] == fingerprint:
        return False
    tx.execute("INSERT OR REPLACE INTO _call_directory VALUES (0, ?)", (fingerprint,))
    return True


def _compute_fingerprint(directory: Directory) -> str:
    return hashlib.sha256(repr(astuple(directory)).encode()).hexdigest()


def _list_legs_of_calls(tx: Transaction, call_ids: Sequence[int]) -> Iterator[int]:
    rows = tx.execute(
        "SELECT leg_id FROM _legs WHERE call_id IN (SELECT value FROM json_each(?))",
        (id_list(call_ids),),
    ).fetchall()
    return (row[0] for row in rows)
