"""Queries on the databases of a running product."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

DATABASES = ("inbox.db", "mirror.db", "house.db")
TIME_COLUMNS = {
    "_leg_events": frozenset({"received_at"}),
    "_legs": frozenset(),
    "_calls": frozenset({"change_no", "is_past"}),
}
"""Tables computed from events, with their columns that depend on the time of processing."""


def open_database(path: Path) -> sqlite3.Connection:
    """Open a database for reading. Rows have names."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    connection.row_factory = sqlite3.Row
    return connection


def query_rows(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(open_database(path)) as connection:
        return [tuple(row) for row in connection.execute(sql, values)]


def query_number(path: Path, sql: str, *values: object) -> int:
    """Return the first value, or 0 for NULL or without a row."""
    rows = query_rows(path, sql, *values)
    return int(rows[0][0] or 0) if rows else 0


def count_keys(mirror: Path, table: str, keys: Iterable[int], condition: str = "1") -> int:
    listed = ",".join(map(str, keys)) or "NULL"
    return query_number(mirror, f"SELECT count(*) FROM {table} WHERE id IN ({listed}) AND {condition}")


def count_complete(data_dir: Path) -> int:
    """Number of collections that were read completely."""
    return query_number(data_dir / "mirror.db", "SELECT count(*) FROM _walks WHERE complete_at > ''")


def is_complete(data_dir: Path, *collections: str) -> bool:
    """Whether each of `collections` was read completely."""
    rows = query_rows(data_dir / "mirror.db", "SELECT collection FROM _walks WHERE complete_at > ''")
    return set(collections) <= {row[0] for row in rows}


def count_stored(data_dir: Path) -> Counter[str]:
    """Rows of inbox.db by event id."""
    return Counter(row[0] for row in query_rows(data_dir / "inbox.db", "SELECT event_id FROM inbox"))


def find_lost(data_dir: Path, acknowledged: Iterable[str]) -> list[str]:
    """Acknowledged events that are not in the inbox."""
    return sorted(set(acknowledged) - set(count_stored(data_dir)))


def find_duplicates(data_dir: Path) -> list[str]:
    """Events with more than one row."""
    return [identifier for identifier, count in count_stored(data_dir).items() if count > 1]


def count_unapplied(data_dir: Path) -> int:
    """Stored events that are not applied to mirror.db."""
    with closing(open_database(data_dir / "inbox.db")) as connection:
        connection.execute("ATTACH ? AS mirror", (f"file:{data_dir / 'mirror.db'}?mode=ro",))
        sql = "SELECT count(*) FROM inbox WHERE seq NOT IN (SELECT seq FROM mirror._applied)"
        return int(connection.execute(sql).fetchone()[0])


def find_damage(data_dir: Path) -> list[str]:
    """Databases that fail SQLite's integrity check, with its result."""
    paths = [data_dir / name for name in DATABASES if (data_dir / name).exists()]
    results = [(path.name, query_rows(path, "PRAGMA integrity_check")[0][0]) for path in paths]
    return [f"{name}: {result}" for name, result in results if result != "ok"]


def read_calls(data_dir: Path) -> dict[str, set[tuple[object, ...]]]:
    """Events, legs and calls of mirror.db, for comparisons."""
    mirror = data_dir / "mirror.db"
    found = {}
    for table, excluded in TIME_COLUMNS.items():
        columns = [
            row[1] for row in query_rows(mirror, f"PRAGMA table_info({table})") if row[1] not in excluded
        ]
        found[table] = set(query_rows(mirror, f"SELECT {', '.join(columns)} FROM {table}"))
    return found


def measure_wal(data_dir: Path, name: str) -> int:
    """Size of a write-ahead log in bytes."""
    path = data_dir / f"{name}-wal"
    return path.stat().st_size if path.exists() else 0
