"""Records under legal hold in mirror.db: calls, and records with held numbers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.errors import PlatformBroken
from integration.core.ids import MAX_ID, as_id, id_list
from integration.core.json_records import JsonRecord, read_record_bytes
from integration.core.number_variants import Finder, make_finder
from integration.mirror.calls.facts import LEG_FIELDS
from integration.mirror.page_queries.history import build_call_id_sql
from integration.mirror.records.rows import quote_identifier

LEG_ID_FIELDS = frozenset(
    chain(("leg_id", "last_call_id", "root_live_id", "call_id", "root_call_id"), *LEG_FIELDS.values())
)
"""Fields with the id of the record's own or a related leg."""

_IN_JSON_LIST = "IN (SELECT value FROM json_each(?))"

_LEGS = f"""
SELECT leg_id FROM _legs WHERE call_id IN (
  SELECT value FROM json_each(?1)
  UNION SELECT {build_call_id_sql("value")} FROM json_each(?1)
  UNION SELECT id FROM _calls WHERE coalesce(party_e164, party) IN (SELECT value FROM json_each(?2)))"""
"""SQL of the legs of calls: JSON lists of their ids and of numbers. `coalesce` is that of an index."""


class HeldRecords:
    """Numbers (E.164) and calls (ids) that must not be deleted.

    Call `load` before each use, because calls get more legs. Thread-safe: `load` replaces each set
    atomically.
    """

    def __init__(self) -> None:
        self.numbers: frozenset[str] = frozenset()
        self.calls: frozenset[int] = frozenset()
        self.legs: frozenset[int] = frozenset()
        self._finder: Finder[str] = make_finder(())

    def __bool__(self) -> bool:
        return bool(self.numbers or self.calls)

    def load(self, connection: sqlite3.Connection, numbers: Collection[str], calls: Collection[int]) -> None:
        """Replace the held numbers and calls, and read the legs of both."""
        # The id of a call that is not computed yet is the id of its leg.
        legs = set(calls)
        if numbers or calls:
            rows = connection.execute(_LEGS, (json.dumps(sorted(calls)), json.dumps(sorted(numbers))))
            legs.update(row[0] for row in rows)
        # Gates on the writer thread use the sets during the query, so each is assigned once, after it.
        self.legs, self._finder = frozenset(legs), make_finder(numbers)
        self.numbers, self.calls = frozenset(numbers), frozenset(calls)

    def is_record_held(self, record: JsonRecord) -> bool:
        """Return whether a record is under legal hold."""
        return bool(self) and (
            any(as_id(record.values.get(name)) in self.legs for name in LEG_ID_FIELDS)
            or self._finder.contains_number(record.text)
        )

    def is_text_held(self, text: str) -> bool:
        """Return whether a text contains a held number."""
        return self._finder.contains_number(text)

    def is_webhook_held(self, call_id: object, body: bytes) -> bool:
        """Return whether a webhook has a held leg or a held number."""
        if not self:
            return False
        if as_id(call_id) in self.legs or self._finder.contains_number_in_bytes(body):
            return True
        try:
            return self.is_record_held(read_record_bytes(body))
        except PlatformBroken:
            return False

    def are_values_held(self, values: Mapping[str, object]) -> bool:
        """Return whether columns of a row have a held leg or number."""
        return bool(self) and any(
            (name in LEG_ID_FIELDS and as_id(value) in self.legs)
            or (isinstance(value, str) and self._finder.contains_number(value))
            or (isinstance(value, bytes) and self.is_webhook_held(None, value))
            for name, value in values.items()
        )

    def is_row_held(self, connection: sqlite3.Connection, table: str, key: int) -> bool:
        """Return whether the record with this key is stored and under legal hold."""
        return bool(self) and bool(self._find_held(connection, table, [key]))

    def exclude_held(self, connection: sqlite3.Connection, table: str, keys: Sequence[int]) -> list[int]:
        """Return the keys of records that are not under legal hold."""
        if not self:
            return list(keys)
        held_keys = self._find_held(connection, table, keys)
        return [key for key in keys if key not in held_keys]

    def filter_deletion(self, deletion: tuple[sqlite3.Connection, Resource, Sequence[Any]]) -> list[Any]:
        """Apply `exclude_held` as the gate of deletions.

        Tables with another key than `id` have no records under hold.
        """
        connection, resource, keys = deletion
        return self.exclude_held(connection, resource.table, keys) if resource.key == "id" else list(keys)

    def exclude_held_calls(self, connection: sqlite3.Connection, calls: Sequence[int]) -> list[int]:
        """Return the ids of calls that are not under legal hold."""
        if not self:
            return list(calls)
        held_calls = {
            row[0]
            for row in connection.execute(
                f"SELECT call_id FROM _legs WHERE leg_id {_IN_JSON_LIST}", (id_list(self.legs),)
            )
        }
        return [call for call in calls if call not in held_calls]

    def _find_held(self, connection: sqlite3.Connection, table: str, keys: Sequence[int]) -> set[int]:
        """Return those of `keys` whose records are under legal hold."""
        name, held_keys = quote_identifier(table), set[int]()
        names = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        columns = ("_doc", "_item", *(LEG_ID_FIELDS & names))
        sql = f"SELECT id, {', '.join(columns)} FROM {name} WHERE id {_IN_JSON_LIST}"
        for begin in range(0, len(keys), 5000):
            for key, *values in connection.execute(sql, (id_list(keys[begin : begin + 5000]),)):
                if self.are_values_held(dict(zip(columns, values, strict=True))):
                    held_keys.add(key)
        return held_keys


def is_call_id(connection: sqlite3.Connection, call_id: int) -> bool:
    """Return whether a call or a call's leg has this id."""
    if call_id > MAX_ID:
        return False
    row = connection.execute(f"SELECT {build_call_id_sql('?1')}", (call_id,)).fetchone()
    return row[0] is not None
