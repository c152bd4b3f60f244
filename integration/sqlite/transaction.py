"""Transaction of a write job, and the changes that it announces."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from integration.core import clock


@dataclass(frozen=True, slots=True)
class Change:
    """Announced change of a commit.

    `number` increases with each change and is unique within one `epoch` of the database.
    """

    number: int
    topic: str
    key: str
    data: dict[str, Any]


Hook = Callable[["Transaction", Any], object]
"""Function that runs in the same transaction after rows of a table have changed."""
Gate = Callable[[Any], Any]
"""Function that returns the storable part of a record, None for no part."""


class Transaction:
    """Transaction of a write job.

    Has the writer's connection, and methods to announce changes. `hooks` and `gates`: those of the database,
    by table.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        hooks: Mapping[str, Sequence[Hook]],
        gates: Mapping[str, Gate],
    ) -> None:
        self.connection = connection
        self.hooks = hooks
        self.gates = gates
        self.changes: list[Change] = []
        self._after_commit_actions: dict[Callable[[], None], None] = {}

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> sqlite3.Cursor:
        return self.connection.executemany(sql, parameters)

    def announce(self, topic: str, key: object, data: dict[str, Any] | None = None) -> int:
        """Record a change in `_changes` and return its number.

        Listeners receive the change after COMMIT. Only for databases with the table `_changes`.
        """
        body = data or {}
        cursor = self.connection.execute(
            "INSERT INTO _changes (at, topic, key, data) VALUES (?, ?, ?, ?)",
            (clock.utc_text(), topic, str(key), orjson.dumps(body).decode()),
        )
        number = int(cursor.lastrowid or 0)
        self.changes.append(Change(number, topic, str(key), body))
        return number

    def announce_many(self, topic: str, count: int) -> range:
        """Record `count` changes as one; return the range of their numbers.

        The stored change has the last number, and `count` as its key. Listeners receive only this change.
        """
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = '_changes'").fetchone()
        last = (row[0] if row is not None else 0) + count
        self.connection.execute(
            "INSERT INTO _changes (id, at, topic, key, data) VALUES (?, ?, ?, ?, '{}')",
            (last, clock.utc_text(), topic, str(count)),
        )
        self.changes.append(Change(last, topic, str(count), {}))
        return range(last - count + 1, last + 1)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` on the writer thread after the commit.

        An equal action of several jobs of the group runs once. `action` must not block and must not write.
        """
        self._after_commit_actions[action] = None
