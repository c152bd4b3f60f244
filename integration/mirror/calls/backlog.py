"""Backlog: legs of an initial sync whose calls are not computed yet.

An initial sync stores records far faster than calls can be computed. It therefore records the range of their
legs as due, and the consumer computes their calls in batches, newest first. A webhook or poll of such a leg
computes its call at once. A call depends only on the facts and not on their order, so the result is the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from integration.core.ids import MAX_ID, as_id
from integration.core.json_records import JsonRecord
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.derived import due
from integration.mirror.derived.calls import LEGS
from integration.sqlite.transaction import Transaction

NEIGHBOUR_COUNT = 100
"""Legs on each side of a leg that are added if due, because legs of one call have similar ids."""

UNKNOWN_TIME = "9999-12-31 23:59:59"
"""UTC text later than every call. Used if the newest leg has no CDR."""

MAX_LEGS_WITH_NEIGHBOURS = 20
"""Largest number of backlog legs for which neighbours are added.

More legs at once come from a sync, which does not need complete calls at once. A webhook or lookup has fewer.
"""


@dataclass(frozen=True, slots=True)
class BacklogState:
    """Size and newest time of the backlog.

    `remaining` is the number of legs. `since` is the start of the newest leg (UTC text), or UNKNOWN_TIME if
    no CDR has it. All calls that began later are computed.
    """

    since: str
    remaining: int

    @property
    def is_time_known(self) -> bool:
        """True if a CDR has the start of the newest leg."""
        return self.since != UNKNOWN_TIME

    def may_contain(self, since: str | None) -> bool:
        """Return whether calls since `since` may be missing.

        `since` is UTC text; None includes all calls.
        """
        return since is None or since <= self.since


@contextmanager
def deferred(tx: Transaction, table: str, records: Iterable[JsonRecord]) -> Iterator[None]:
    """Leave the calls of `records`, which the block stores in `table`, to the consumer."""
    leg_ids = [
        leg_id
        for record in records
        for name in LEG_FIELDS.get(table, ())
        if (leg_id := as_id(record.values.get(name))) is not None and leg_id > 0
    ]
    due.mark_new(tx, LEGS, leg_ids)
    yield
    due.postpone(tx)


def is_empty(connection: sqlite3.Connection) -> bool:
    return not due.is_due(connection, LEGS)


def get_state(connection: sqlite3.Connection) -> BacklogState | None:
    """Return the state of the backlog; None if empty."""
    state = due.get_state(connection, LEGS)
    if state is None:
        return None
    ranges = sorted(due.list_all_ranges(connection, LEGS), reverse=True)
    newest_leg_id = next(id_ for keys in ranges for id_ in LEGS.list_keys(connection, keys, 1))
    row = connection.execute(
        "SELECT max(calldate) FROM cdrs WHERE live_id IN (?, ?)", (newest_leg_id, str(newest_leg_id))
    ).fetchone()
    return BacklogState(row[0] if isinstance(row[0], str) else UNKNOWN_TIME, state.count)


def add_neighbours(tx: Transaction, leg_ids: Iterable[int]) -> set[int]:
    """Add legs of the backlog that may belong to the same calls.

    Neighbours are added only for legs that are in the backlog themselves, and only if these are at most
    MAX_LEGS_WITH_NEIGHBOURS.
    """
    expanded_ids = set(leg_ids)
    pending = due.find_due(tx.connection, LEGS.name, expanded_ids)
    if len(pending) <= MAX_LEGS_WITH_NEIGHBOURS:
        neighbours = set[int]()
        for leg_id in pending:
            for is_ascending, keys in ((False, (1, leg_id)), (True, (leg_id, MAX_ID))):
                neighbours.update(
                    LEGS.list_keys(tx.connection, keys, NEIGHBOUR_COUNT + 1, is_ascending=is_ascending)
                )
        expanded_ids |= due.find_due(tx.connection, LEGS.name, neighbours)
    return expanded_ids
