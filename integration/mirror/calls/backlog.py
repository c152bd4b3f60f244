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

from integration.mirror.calls.reading import ids_json
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _legs_due (leg_id INTEGER PRIMARY KEY) STRICT;
"""

NEAR = 100
"""Legs of one call have numbers near each other: so many that wait on each side are put together with one."""

UNKNOWN = "9999-12-31 23:59:59"

FEW = 20
"""More legs at once are no webhook or look-up, but a reading: it need not wait for their neighbours."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """`left` legs wait. All calls that began after `since` (UTC text) are put together: that is the time of
    the newest leg that waits, or UNKNOWN where no record tells it."""

    since: str
    left: int

    @property
    def known(self) -> bool:
        return self.since != UNKNOWN

    def within(self, since: str | None) -> bool:
        """Whether calls that began at `since` (UTC text; None: ever) or later may be among them."""
        return since is None or since <= self.since


def add(tx: Transaction, leg_ids: Iterable[int]) -> None:
    tx.execute("INSERT OR IGNORE INTO _legs_due SELECT value FROM json_each(?)", (ids_json(leg_ids),))


def done(tx: Transaction, leg_ids: Iterable[int]) -> None:
    """Their calls are put together."""
    if _any(tx):
        tx.execute(
            "DELETE FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?))", (ids_json(leg_ids),)
        )


def left(connection: sqlite3.Connection | Transaction) -> int:
    """How many wait: some milliseconds for a million."""
    return int(connection.execute("SELECT count(*) FROM _legs_due").fetchone()[0])


def newest(tx: Transaction, limit: int) -> list[int]:
    rows = tx.execute("SELECT leg_id FROM _legs_due ORDER BY leg_id DESC LIMIT ?", (limit,))
    return [row[0] for row in rows]


def waiting(connection: sqlite3.Connection) -> Waiting | None:
    """What waits; None where nothing does."""
    newest_leg = connection.execute("SELECT max(leg_id) FROM _legs_due").fetchone()[0]
    if newest_leg is None:
        return None
    row = connection.execute(
        "SELECT max(calldate) FROM cdrs WHERE live_id IN (?, ?)", (newest_leg, str(newest_leg))
    ).fetchone()
    return Waiting(row[0] if isinstance(row[0], str) else UNKNOWN, left(connection))


def with_neighbours(tx: Transaction, leg_ids: Iterable[int]) -> set[int]:
    """These legs, and what may be of one call with those of them that wait."""
    found = set(leg_ids)
    if not _any(tx):
        return found
    waiting = tx.execute(
        "SELECT leg_id FROM _legs_due WHERE leg_id IN (SELECT value FROM json_each(?)) LIMIT ?",
        (ids_json(found), FEW + 1),
    ).fetchall()
    if len(waiting) <= FEW:
        for row in waiting:
            for side in ("< ? ORDER BY leg_id DESC", "> ? ORDER BY leg_id"):
                near = tx.execute(f"SELECT leg_id FROM _legs_due WHERE leg_id {side} LIMIT ?", (row[0], NEAR))
                found.update(leg[0] for leg in near)
    return found


def _any(tx: Transaction) -> bool:
    return tx.execute("SELECT 1 FROM _legs_due LIMIT 1").fetchone() is not None
