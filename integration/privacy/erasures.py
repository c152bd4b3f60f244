"""Table of erasures: keyed hashes of numbers, and ids of records.

The erasure gate recognises the numbers by their hashes, but the numbers cannot be read from the table. The
key is in a separate file (`erasure-key`). `erased_records` has only ids.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from integration.core import clock
from integration.mirror.privacy.erasure_gate import ErasureGate
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS erasures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    digests TEXT NOT NULL UNIQUE,
    lengths TEXT NOT NULL,
    done_at TEXT,
    removed TEXT,
    report TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS erased_records (
    name TEXT NOT NULL, key ANY NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
"""


REMOVED_EXPORTS = "prepared exports (removed)"
"""Label of prepared exports among the removed entries."""
running = threading.Lock()
"""Held while an erasure runs in this process."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure.

    `at`: time of its request, `done_at`: time of its completion (None: running or interrupted), both UTC
    text. `removed` has the numbers of entries by label. `report` has what was not erased: data under legal
    hold (`held`, `held_copies`), `backups`, `delivered` exports and places that `possibly_left` the number.
    It is empty for an erasure by an earlier version.
    """

    id: int
    at: str
    who: str
    done_at: str | None
    removed: dict[str, int]
    report: dict[str, Any]


def begin(
    tx: Transaction, requested_at: str, who: str, digests: Iterable[bytes], lengths: Iterable[int]
) -> int:
    """Record the erasure of a number and return the erasure's id.

    The erasure applies to all data dated up to `requested_at`. A repeated erasure of the same number has the
    same id.
    """
    digests_json = json.dumps(sorted(digest.hex() for digest in digests))
    tx.execute(
        "INSERT INTO erasures (at, who, digests, lengths) VALUES (?, ?, ?, ?) ON CONFLICT (digests)"
        " DO UPDATE SET at = excluded.at, who = excluded.who, done_at = NULL",
        (requested_at, who, digests_json, json.dumps(sorted(lengths))),
    )
    return int(tx.execute("SELECT id FROM erasures WHERE digests = ?", (digests_json,)).fetchone()[0])


def add_records(tx: Transaction, records: Iterable[tuple[str, Any]]) -> None:
    """Store the records of an erased number as (table, key)."""
    tx.executemany("INSERT OR IGNORE INTO erased_records VALUES (?, ?)", list(records))


def finish(tx: Transaction, erasure_id: int, removed: Mapping[str, int], report: Mapping[str, Any]) -> None:
    tx.execute(
        "UPDATE erasures SET done_at = ?, removed = ?, report = ? WHERE id = ?",
        (clock.utc_text(), json.dumps(dict(removed)), json.dumps(dict(report)), erasure_id),
    )


def list_all(connection: sqlite3.Connection) -> list[Erasure]:
    """Return all erasures, newest first."""
    rows = [dict(row) for row in connection.execute("SELECT * FROM erasures ORDER BY id DESC")]
    return [
        Erasure(
            row["id"],
            row["at"],
            row["who"],
            row["done_at"],
            json.loads(row["removed"] or "{}"),
            # Read-only commands do not migrate a house.db without this column.
            json.loads(row.get("report") or "{}"),
        )
        for row in rows
    ]


def find_removal_of_exports(connection: sqlite3.Connection, since: str) -> str | None:
    """Return the end of the last erasure since `since` (UTC text) that deleted prepared exports, or None."""
    ends = [one.done_at for one in list_all(connection) if one.done_at and REMOVED_EXPORTS in one.removed]
    return max((end for end in ends if end >= since), default=None)


def add_report_column(schema: Schema) -> None:
    """Migration: add the column of what was not erased."""
    table = schema.table("erasures")
    if table.exists() and "report" not in table.columns_dict:
        table.add_column("report", str)


def list_unfinished_records(connection: sqlite3.Connection) -> dict[str, set[Any]]:
    """Return the keys of erased records by table.

    Empty if every erasure is complete. Otherwise the result includes the records of completed erasures, which
    are already stripped.
    """
    if not has_tables(connection) or all(erasure.done_at for erasure in list_all(connection)):
        return {}
    keys_by_table: dict[str, set[Any]] = {}
    for name, key in connection.execute("SELECT name, key FROM erased_records"):
        keys_by_table.setdefault(name, set()).add(key)
    return keys_by_table


def has_tables(connection: sqlite3.Connection) -> bool:
    """Return False for a house.db of a version without erasures.

    Read-only commands do not migrate it.
    """
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'erasures'").fetchone() is not None


def load_gate(connection: sqlite3.Connection, erasure_gate: ErasureGate) -> None:
    """Add all erasures and erased records to `erasure_gate`."""
    erasure_gate.add(
        "", (), (), ((row[0], row[1]) for row in connection.execute("SELECT * FROM erased_records"))
    )
    for requested_at, digests, lengths in connection.execute("SELECT at, digests, lengths FROM erasures"):
        erasure_gate.add(requested_at, map(bytes.fromhex, json.loads(digests)), json.loads(lengths), ())


def find_problem(app_db: Database, erasure_gate: ErasureGate) -> str | None:
    """Return a message about unfinished erasures, or None."""
    with app_db.read() as connection:
        unfinished_ids = [erasure.id for erasure in list_all(connection) if erasure.done_at is None]
    if unfinished_ids and not running.locked():
        return f"Erasure {unfinished_ids[-1]} was interrupted. Erase the number again."
    if erasure_gate and not erasure_gate.has_key:
        return (
            "data_dir/erasure-key is missing, so later records of erased numbers cannot be recognised. "
            "Restore the file from a backup."
        )
    return None
