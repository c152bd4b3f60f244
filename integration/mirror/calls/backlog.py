"""Backlog: legs of an initial sync whose calls are not computed yet.

An initial sync stores records far faster than calls can be computed. It therefore stores the leg ids in
`_legs_due`, in the transaction that stores the records. `CallStore.assemble_backlog` computes their calls in
batches, newest first. Any other fact about such a leg computes its call at once. A call depends only on the
facts and not on their order, so the result is the same.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from integration.core.ids import id_list
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _legs_due (leg_id INTEGER PRIMARY KEY) STRICT;
"""

NEIGHBOUR_COUNT = 100
"""Backlog legs added on each side of a leg, because legs of one call have similar ids."""

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


def add(tx: Transaction, leg_ids: Iterable[int]) -> None:
    """Add legs to the backlog."""
    tx.execute("INSERT OR IGNORE INTO _legs_due SELECT value FROM json_each(?)", (id_list(leg_ids),))


def remove(tx: Transaction, leg_ids: Iterable[int]) -> None:
    """Remove legs whose calls were computed."""
    if _has_pending(tx):
        tx.execute(
            "DELETE FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?))", (id_list(leg_ids),)
        )


def count(connection: sqlite3.Connection | Transaction) -> int:
    """Return the number of legs in the backlog.

    Takes a few milliseconds for a million legs.
    """
    return int(connection.execute("SELECT count(*) FROM _legs_due").fetchone()[0])


def find_pending(connection: sqlite3.Connection, leg_ids: Iterable[int]) -> set[int]:
    """Return those of `leg_ids` that are in the backlog."""
    rows = connection.execute(
        "SELECT leg_id FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?))", (id_list(leg_ids),)
    )
    return {row[0] for row in rows}


def list_newest(tx: Transaction, limit: int) -> list[int]:
    """Return the `limit` highest leg ids of the backlog, descending."""
    rows = tx.execute("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC LIMIT ?", (limit,))
    return [row[0] for row in rows]


def is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM _legs_due LIMIT 1").fetchone() is None


def get_state(connection: sqlite3.Connection) -> BacklogState | None:
    """Return the state of the backlog; None if empty."""
    newest_leg_id = connection.execute("SELECT max(leg_id) FROM _legs_due").fetchone()[0]
    if newest_leg_id is None:
        return None
    row = connection.execute(
        "SELECT max(calldate) FROM cdrs WHERE live_id IN (?, ?)", (newest_leg_id, str(newest_leg_id))
    ).fetchone()
    return BacklogState(row[0] if isinstance(row[0], str) else UNKNOWN_TIME, count(connection))


def add_neighbours(tx: Transaction, leg_ids: Iterable[int]) -> set[int]:
    """Add backlog legs that may belong to the same calls.

    Neighbours are added only for legs that are in the backlog themselves, and only if these are at most
    MAX_LEGS_WITH_NEIGHBOURS.
    """
    expanded_ids = set(leg_ids)
    if not _has_pending(tx):
        return expanded_ids
    pending_rows = tx.execute(
        "SELECT leg_id FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?)) LIMIT ?",
        (id_list(expanded_ids), MAX_LEGS_WITH_NEIGHBOURS + 1),
    ).fetchall()
    if len(pending_rows) <= MAX_LEGS_WITH_NEIGHBOURS:
        for row in pending_rows:
            for range_sql in ("< ? ORDER BY leg_id DESC", "> ? ORDER BY leg_id"):
                neighbours = tx.execute(
                    f"SELECT leg_id FROM _legs_due WHERE leg_id {range_sql} LIMIT ?",
                    (row[0], NEIGHBOUR_COUNT),
                )
                expanded_ids.update(leg[0] for leg in neighbours)
    return expanded_ids


def _has_pending(tx: Transaction) -> bool:
    return tx.execute("SELECT 1 FROM _legs_due LIMIT 1").fetchone() is not None
