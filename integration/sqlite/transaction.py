"""What a write job of a database works with, and what it tells of its work."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integration.core import clock


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changed: `number` rises by commit and is never used twice within one `epoch`."""

    number: int
    topic: str
    key: str
    data: dict[str, Any]


Hook = Callable[["Transaction", Any], object]
Gate = Callable[[Any], Any]
"""What of a record may be stored: all of it, less, or None for nothing."""


class Transaction:
    """What a write job works with: the writer's connection, and a way to announce what it changed.

    `hooks` are what the database was given to run in the same transaction after rows of a table changed,
    `gates` what stands before a table.
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
        """Note a change in `_changes`, to be told to listeners after COMMIT. Returns its number.

        Only for a database that has this table.
        """
        body = data or {}
        cursor = self.connection.execute(
            "INSERT INTO _changes (at, topic, key, data) VALUES (?, ?, ?, ?)",
            (clock.utc_text(), topic, str(key), json.dumps(body, separators=(",", ":"))),
        )
        number = int(cursor.lastrowid or 0)
        self.changes.append(Change(number, topic, str(key), body))
        return number

    def announce_many(self, topic: str, count: int) -> range:
        """Note `count` changes that nobody needs to be told one by one, as one whose key is their number.
        Returns the numbers they would have had; listeners are told the last."""
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = '_changes'").fetchone()
        last = (row[0] if row is not None else 0) + count
        self.connection.execute(
            "INSERT INTO _changes (id, at, topic, key, data) VALUES (?, ?, ?, ?, '{}')",
            (last, clock.utc_text(), topic, str(count)),
        )
        self.changes.append(Change(last, topic, str(count), {}))
        return range(last - count + 1, last + 1)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` on the writer thread once this is durable; once, however many jobs of the group ask.

        It must be quick and must not write.
        """
        self._after_commit_actions[action] = None
