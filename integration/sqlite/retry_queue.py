"""Persistent retry queue: rows of a table that wait for their next try."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class RetryQueue:
    """The queue in `table`, which counts the tries of each row in its column `tries`.

    `key`: columns of the primary key. `gaps`: seconds before the first try, the second and so on; after the
    last of them a row fails for good. `waiting`: SQL condition of rows that are not finished. `columns`, in
    `order`: what `due` returns. `due_at`: column with the time of the next try, as `encode` makes it from
    Unix seconds. All are literals of the owning module.
    """

    table: str
    key: tuple[str, ...]
    gaps: tuple[float, ...]
    waiting: str = "true"
    columns: str = "*"
    order: str = "id"
    due_at: str = "next_at"
    encode: Callable[[float], float | str] = float

    def due(
        self, connection: sqlite3.Connection, now: float, limit: int = -1, **equal: object
    ) -> list[sqlite3.Row]:
        """Return the rows to try at `now` (Unix seconds) whose columns have the values of `equal`."""
        conditions = [*(f"{name} = ?" for name in equal), self.waiting, f"{self.due_at} <= ?"]
        return connection.execute(
            f"SELECT {self.columns} FROM {self.table} WHERE {' AND '.join(conditions)}"  # noqa: S608
            f" ORDER BY {self.order} LIMIT ?",
            (*equal.values(), self.encode(now), limit),
        ).fetchall()

    def next_at(self, connection: sqlite3.Connection) -> float | None:
        """Return when the next row is due (Unix seconds, of a queue that stores them); None without a row."""
        row = connection.execute(
            f"SELECT min({self.due_at}) FROM {self.table} WHERE {self.waiting}"  # noqa: S608
        ).fetchone()
        return None if row[0] is None else float(row[0])

    def fail(self, tx: Transaction, key: Sequence[object], tries: int, now: float, **changes: object) -> bool:
        """Record that try number `tries` failed, with other `changes` of columns, and schedule the next one.
        False, and nothing is recorded, where it was the last."""
        if tries >= len(self.gaps):
            return False
        due_at = self.encode(now + self.gaps[tries])
        self._update(tx, key, tries=tries, **{self.due_at: due_at}, **changes)
        return True

    def finish(self, tx: Transaction, key: Sequence[object], tries: int, **changes: object) -> None:
        """Record that try number `tries` was the last, with the `changes` that end the waiting."""
        self._update(tx, key, tries=tries, **{self.due_at: None}, **changes)

    def _update(self, tx: Transaction, key: Sequence[object], **changes: object) -> None:
        assignments = ", ".join(f"{name} = ?" for name in changes)
        condition = " AND ".join(f"{name} = ?" for name in self.key)
        tx.execute(
            f"UPDATE {self.table} SET {assignments} WHERE {condition}",  # noqa: S608
            (*changes.values(), *key),
        )
