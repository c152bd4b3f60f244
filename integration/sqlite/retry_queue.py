"""Persistent retry queue: table rows that wait for their next attempt."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RetryQueue:
    """Retry queue in `table`, whose column `tries` counts attempts.

    `key`: columns of the primary key. `delays`: seconds before each attempt; a row without a further delay
    fails permanently. `waiting`: SQL condition of unfinished rows. `columns`, `order`: columns and order of
    the rows that `due` returns. `due_at`: column with the time of the next attempt, which `encode` computes
    from Unix seconds. All are literals of the owning module.
    """

    table: str
    key: tuple[str, ...]
    delays: tuple[float, ...]
    waiting: str = "true"
    columns: str = "*"
    order: str = "id"
    due_at: str = "next_at"
    encode: Callable[[float], float | str] = float

    def due(
        self, connection: sqlite3.Connection, now: float, limit: int = -1, **equal: object
    ) -> list[sqlite3.Row]:
        """Return the rows that are due at `now` (Unix seconds).

        `equal`: required values of columns. `limit`: maximum number of rows; -1 for all.
        """
        conditions = [*(f"{name} = ?" for name in equal), self.waiting, f"{self.due_at} <= ?"]
        return connection.execute(
            f"SELECT {self.columns} FROM {self.table} WHERE {' AND '.join(conditions)}"  # noqa: S608
            f" ORDER BY {self.order} LIMIT ?",
            (*equal.values(), self.encode(now), limit),
        ).fetchall()

    def next_at(self, connection: sqlite3.Connection) -> float | None:
        """Return the Unix seconds of the next attempt, None without waiting rows.

        Only for queues that store Unix seconds.
        """
        row = connection.execute(
            f"SELECT min({self.due_at}) FROM {self.table} WHERE {self.waiting}"  # noqa: S608
        ).fetchone()
        return None if row[0] is None else float(row[0])

    def fail(self, tx: Transaction, key: Sequence[object], tries: int, now: float, **changes: object) -> bool:
        """Record the failed attempt number `tries` and schedule the next one.

        `changes`: other columns to set. Returns False, without recording anything, after the last attempt.
        """
        if tries >= len(self.delays):
            return False
        due_at = self.encode(now + self.delays[tries])
        self._update(tx, key, tries=tries, **{self.due_at: due_at}, **changes)
        return True

    def finish(self, tx: Transaction, key: Sequence[object], tries: int, **changes: object) -> None:
        """Record attempt number `tries` as the last.

        `changes`: other columns to set, which finish the row.
        """
        self._update(tx, key, tries=tries, **{self.due_at: None}, **changes)

    def _update(self, tx: Transaction, key: Sequence[object], **changes: object) -> None:
        assignments = ", ".join(f"{name} = ?" for name in changes)
        condition = " AND ".join(f"{name} = ?" for name in self.key)
        tx.execute(
            f"UPDATE {self.table} SET {assignments} WHERE {condition}",  # noqa: S608
            (*changes.values(), *key),
        )
