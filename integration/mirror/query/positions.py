"""Positions of records in the order of ids, for deep pages and totals of growing collections.

Without them the page in the middle of 1,000,000 CDRs would read 500,000 entries of an index: 16 ms, beside
4 ms for its records. One id of INTERVAL records is cached, as long as no record before it was added, deleted
or marked as missing (records/record_order.py).
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right

from integration.catalogue.shapes import Resource
from integration.mirror.records.record_order import ORDERED_TABLES

INTERVAL = 5000
"""Number of records between two positions."""
_BELOW_ALL_IDS = -1e19


class Positions:
    """Cached positions of one mirror.db. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, list[int]]] = {}
        """Number of the order, and the id of every INTERVAL-th present record, by table."""

    def find(
        self, connection: sqlite3.Connection, resource: Resource, skipped: int
    ) -> tuple[int, int] | None:
        """Return the last position up to `skipped` present records: (id, number of records up to the id).

        None before the first position, and for a collection without positions.
        """
        ids = self._read_ids(connection, resource, skipped // INTERVAL)
        number = min(len(ids), skipped // INTERVAL)
        return (ids[number - 1], number * INTERVAL) if number else None

    def count(self, connection: sqlite3.Connection, resource: Resource) -> int | None:
        """Return the number of present records, or None for a collection without positions."""
        if resource.table not in ORDERED_TABLES:
            return None
        ids = self._read_ids(connection, resource, None)
        # Another thread may have found positions in a newer state, in which records were added at the end.
        (highest,) = connection.execute(f"SELECT max(id) FROM {resource.table}").fetchone()
        number = 0 if highest is None else bisect_right(ids, highest)
        last = ids[number - 1] if number else _BELOW_ALL_IDS
        sql = (
            f"SELECT count(*) FROM {resource.table} INDEXED BY {resource.table}_present"
            " WHERE _missing_since IS NULL AND id > ?"
        )
        return number * INTERVAL + int(connection.execute(sql, (last,)).fetchone()[0])

    def _read_ids(self, connection: sqlite3.Connection, resource: Resource, number: int | None) -> list[int]:
        """Return the first `number` positions, or all."""
        table = resource.table
        if table not in ORDERED_TABLES:
            return []
        (order,) = connection.execute("SELECT number FROM _orders WHERE name = ?", (table,)).fetchone()
        with self._lock:
            found_order, found = self._found.get(table, (order, []))
        ids = list(found) if found_order == order else []
        sql = (
            f"SELECT id FROM {table} INDEXED BY {table}_present WHERE _missing_since IS NULL AND id > ?"
            f" ORDER BY id LIMIT 1 OFFSET {INTERVAL - 1}"
        )
        while number is None or len(ids) < number:
            row = connection.execute(sql, (ids[-1] if ids else _BELOW_ALL_IDS,)).fetchone()
            if row is None:
                break
            ids.append(row[0])
        with self._lock:
            self._found[table] = (order, ids)
        return ids
