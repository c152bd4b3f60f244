"""What lies below records: notes of a CDR, chat messages and announcements of a user, as received.

The specification shows none of these records, so they are kept as JSON text beside the record they belong to.
"""

from __future__ import annotations

import sqlite3

from integration.catalogue import resource
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _below (
    collection TEXT NOT NULL,
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    doc TEXT,
    read_at TEXT NOT NULL,
    PRIMARY KEY (collection, key, name)
) STRICT, WITHOUT ROWID;
-- serves what is due: few of many calls have notes
CREATE INDEX IF NOT EXISTS cdrs_noted ON cdrs (id) WHERE nb_notes > 0;
"""

MOST = 500
"""Records whose belongings one run asks for."""


def due(
    connection: sqlite3.Connection,
    collection: str,
    name: str,
    where: str | None,
    oldest: str,
    *,
    old: str,
    since: str,
) -> list[int]:
    """Keys of present records whose `name` was last read before `oldest` (UTC text) or never; never first,
    the newest of them first. What is dated before `since` is due only when last read before `old`. `where` is
    a property that must be above 0."""
    of = resource(collection)
    if where is not None and of.field(where) is None:
        raise ValueError(f"{of.name} has no field {where!r}")
    only = f'AND r."{where}" > 0' if where is not None else ""
    limit = f'CASE WHEN r."{of.date}" < ? THEN ? ELSE ? END' if of.date else "?"
    rows = connection.execute(
        f'SELECT r."{of.key}" FROM "{of.table}" AS r LEFT JOIN _below AS b '
        f'ON b.collection = ? AND b.key = r."{of.key}" AND b.name = ? '
        # The plus keeps SQLite from taking the index of all that is present.
        f"WHERE +r._missing_since IS NULL {only} AND (b.read_at IS NULL OR b.read_at < {limit}) "
        f'ORDER BY b.read_at, r."{of.key}" DESC LIMIT ?',
        (collection, name, *([since, old, oldest] if of.date else [oldest]), MOST),
    )
    return [row[0] for row in rows]


def put(tx: Transaction, collection: str, key: int, name: str, doc: str | None, read_at: str) -> None:
    """`doc` is a JSON array of what was received; None: the platform gives none of this record."""
    gate = tx.gates.get("_below")
    if gate is not None:
        doc = gate((collection, key, doc))
    tx.execute(
        "INSERT INTO _below VALUES (?, ?, ?, ?, ?) ON CONFLICT (collection, key, name) DO UPDATE SET "
        "doc = excluded.doc, read_at = excluded.read_at",
        (collection, key, name, doc, read_at),
    )


def of(connection: sqlite3.Connection, collection: str, key: int, name: str) -> str | None:
    """The JSON array of what lies below a record, such as of('cdrs', 7, 'notes'); None where nothing was
    read."""
    row = connection.execute(
        "SELECT doc FROM _below WHERE collection = ? AND key = ? AND name = ?", (collection, key, name)
    ).fetchone()
    return None if row is None else row[0]
