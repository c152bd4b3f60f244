"""Legs that were told of and whose calls are not put together yet: the history of a first load.

A first walk stores records far faster than calls can be put together. So it notes their legs in `_legs_due`,
in the transaction that stores the records, and somebody works that off, the newest first, a chunk at a time
(`CallStore.catch_up`). What else touches such a leg puts its call together at once. Since a call depends on
the facts alone, and not on their order, the outcome is the same.
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
"""Legs of one call have numbers near each other: so many that wait on each side are put together with one."""

UNKNOWN_TIME = "9999-12-31 23:59:59"

MAX_LEGS_WITH_NEIGHBOURS = 20
"""More legs at once are no webhook or look-up, but a reading: it need not wait for their neighbours."""


@dataclass(frozen=True, slots=True)
class BacklogState:
    """`remaining` legs wait. All calls that began after `since` (UTC text) are put together: that is the time
    of the newest leg that waits, or UNKNOWN_TIME where no record tells it."""

    since: str
    remaining: int

    @property
    def is_time_known(self) -> bool:
        return self.since != UNKNOWN_TIME

    def may_contain(self, since: str | None) -> bool:
        """Whether calls that began at `since` (UTC text; None: ever) or later may be among them."""
        return since is None or since <= self.since


def add(tx: Transaction, leg_ids: Iterable[int]) -> None:
    tx.execute("INSERT OR IGNORE INTO _legs_due SELECT value FROM json_each(?)", (id_list(leg_ids),))


def remove(tx: Transaction, leg_ids: Iterable[int]) -> None:
    """Their calls are put together."""
    if _has_pending(tx):
        tx.execute(
            "DELETE FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?))", (id_list(leg_ids),)
        )


def count(connection: sqlite3.Connection | Transaction) -> int:
    """How many wait: some milliseconds for a million."""
    return int(connection.execute("SELECT count(*) FROM _legs_due").fetchone()[0])


def list_newest(tx: Transaction, limit: int) -> list[int]:
    rows = tx.execute("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC LIMIT ?", (limit,))
    return [row[0] for row in rows]


def get_state(connection: sqlite3.Connection) -> BacklogState | None:
    """What waits; None where nothing does."""
    newest_leg_id = connection.execute("SELECT max(leg_id) FROM _legs_due").fetchone()[0]
    if newest_leg_id is None:
        return None
    row = connection.execute(
        "SELECT max(calldate) FROM cdrs WHERE live_id IN (?, ?)", (newest_leg_id, str(newest_leg_id))
    ).fetchone()
    return BacklogState(row[0] if isinstance(row[0], str) else UNKNOWN_TIME, count(connection))


def add_neighbours(tx: Transaction, leg_ids: Iterable[int]) -> set[int]:
    """These legs, and what may be of one call with those of them that wait."""
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
