"""What is under legal hold in mirror.db: calls, and whatever names certain numbers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.json_records import Document
from integration.core.number_variants import Finder, finder
from integration.mirror.records.rows import quote

LEG_FIELDS = ("live_id", "parent_live_id", "root_live_id", "call_id", "root_call_id")
"""Fields of records and webhooks that name a leg."""

_AMONG = "IN (SELECT value FROM json_each(?))"


class Held:
    """Numbers (E.164) and calls (ids) that nothing may remove. `look` before asking: calls gain legs.
    Thread-safe: a look is swapped in whole."""

    def __init__(self) -> None:
        self.numbers: frozenset[str] = frozenset()
        self.calls: frozenset[int] = frozenset()
        self.legs: frozenset[int] = frozenset()
        self._finder: Finder[str] = finder(())

    def __bool__(self) -> bool:
        return bool(self.numbers or self.calls)

    def look(self, connection: sqlite3.Connection, numbers: Collection[str], calls: Collection[int]) -> None:
        """These are under hold now."""
        self._finder = finder(numbers)
        self.numbers, self.calls = frozenset(numbers), frozenset(calls)
        rows = connection.execute(
            f"SELECT leg_id FROM _legs WHERE call_id {_AMONG} OR call_id IN"
            f" (SELECT call_id FROM _call_ids WHERE id {_AMONG}) OR call_id IN"
            f" (SELECT id FROM _calls WHERE party_e164 {_AMONG})",
            (json.dumps(sorted(calls)), json.dumps(sorted(calls)), json.dumps(sorted(numbers))),
        )
        # A call that is not put together yet is known by the number of its leg.
        self.legs = frozenset({row[0] for row in rows} | self.calls)

    def document(self, document: Document) -> bool:
        """Whether a record is under hold."""
        return bool(self) and (
            any(_whole(document.values.get(name)) in self.legs for name in LEG_FIELDS)
            or self._finder.names(document.text)
        )

    def text(self, text: str) -> bool:
        return self._finder.names(text)

    def webhook(self, call_id: object, body: bytes) -> bool:
        return _whole(call_id) in self.legs or self._finder.names(body.decode("utf-8", "replace"))

    def row(self, connection: sqlite3.Connection, table: str, key: int) -> bool:
        return bool(self) and bool(list(self._among(connection, table, [key])))

    def spared(self, connection: sqlite3.Connection, table: str, keys: Sequence[int]) -> list[int]:
        """`keys` of a collection's table without those under hold."""
        if not self:
            return list(keys)
        held = set(self._among(connection, table, keys))
        return [key for key in keys if key not in held]

    def spared_keys(self, of: tuple[sqlite3.Connection, Resource, Sequence[Any]]) -> list[Any]:
        """As `spared`, as the gate before deletions. Only history is held."""
        connection, resource, keys = of
        return self.spared(connection, resource.table, keys) if resource.key == "id" else list(keys)

    def spared_calls(self, connection: sqlite3.Connection, calls: Sequence[int]) -> list[int]:
        if not self:
            return list(calls)
        held = {
            row[0]
            for row in connection.execute(
                f"SELECT call_id FROM _legs WHERE leg_id {_AMONG}", (json.dumps(sorted(self.legs)),)
            )
        }
        return [call for call in calls if call not in held]

    def _among(self, connection: sqlite3.Connection, table: str, keys: Sequence[int]) -> Iterator[int]:
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({quote(table)})")}
        fields = [name for name in LEG_FIELDS if name in present]
        columns = ", ".join(["id", "_doc", *(quote(name) for name in fields)])
        for begin in range(0, len(keys), 5000):
            for key, doc, *legs in connection.execute(
                f"SELECT {columns} FROM {quote(table)} WHERE id {_AMONG}",
                (json.dumps(keys[begin : begin + 5000]),),
            ):
                if any(_whole(leg) in self.legs for leg in legs) or self._finder.names(doc):
                    yield key


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_call(connection: sqlite3.Connection, number: int) -> bool:
    """Whether a call, or a leg of one, has this id."""
    return (
        number < 2**63
        and connection.execute(
            "SELECT 1 FROM _call_ids WHERE id = ?1 UNION SELECT 1 FROM _legs WHERE leg_id = ?1", (number,)
        ).fetchone()
        is not None
    )
