"""Subresources of records, stored as received.

These are notes of a CDR, chat messages and announcements of a user. The specification documents no
fields, so they are stored as JSON text by the key of their record.
"""

from __future__ import annotations

import sqlite3

from integration.catalogue import get_resource
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
-- serves the search for due notes: few CDRs have notes
CREATE INDEX IF NOT EXISTS cdrs_noted ON cdrs (id) WHERE nb_notes > 0;
"""

MAX_RECORDS_PER_RUN = 500
"""Number of records whose subresources one run requests."""


def due(
    connection: sqlite3.Connection,
    collection: str,
    name: str,
    positive_field: str | None,
    read_before: str,
    *,
    old_read_before: str,
    old_date_limit: str,
) -> list[int]:
    """Return keys of present records with a due subresource `name`.

    A subresource is due if it was not read since `read_before` (UTC text). Records never read come first,
    those with the highest key first. A record dated before `old_date_limit` is due only if its last read was
    before `old_read_before`. `positive_field`: only records in which this field is above 0. At most
    MAX_RECORDS_PER_RUN keys. Raises ValueError if the collection has no such field.
    """
    parent = get_resource(collection)
    if positive_field is not None and parent.field(positive_field) is None:
        raise ValueError(f"{parent.name} has no field {positive_field!r}")
    count_condition = f'AND r."{positive_field}" > 0' if positive_field is not None else ""
    limit = f'CASE WHEN r."{parent.date}" < ? THEN ? ELSE ? END' if parent.date else "?"
    rows = connection.execute(
        f'SELECT r."{parent.key}" FROM "{parent.table}" AS r LEFT JOIN _below AS b '
        f'ON b.collection = ? AND b.key = r."{parent.key}" AND b.name = ? '
        # The plus keeps SQLite from using the index of all present records.
        f"WHERE +r._missing_since IS NULL {count_condition} AND (b.read_at IS NULL OR b.read_at < {limit}) "
        f'ORDER BY b.read_at, r."{parent.key}" DESC LIMIT ?',
        (
            collection,
            name,
            *([old_date_limit, old_read_before, read_before] if parent.date else [read_before]),
            MAX_RECORDS_PER_RUN,
        ),
    )
    return [row[0] for row in rows]


def store(tx: Transaction, collection: str, key: int, name: str, doc: str | None, read_at: str) -> None:
    """Store a subresource.

    `doc` is the received JSON array; None if the platform has none for this record.
    """
    gate = tx.gates.get("_below")
    if gate is not None:
        doc = gate((collection, key, doc))
    tx.execute(
        "INSERT INTO _below VALUES (?, ?, ?, ?, ?) ON CONFLICT (collection, key, name) DO UPDATE SET "
        "doc = excluded.doc, read_at = excluded.read_at",
        (collection, key, name, doc, read_at),
    )


def find(connection: sqlite3.Connection, collection: str, key: int, name: str) -> str | None:
    """Return a subresource as a JSON array, or None.

    Example: find(connection, 'cdrs', 7, 'notes'). The result is None if the
    subresource was never read or the platform has none.
    """
    row = connection.execute(
        "SELECT doc FROM _below WHERE collection = ? AND key = ? AND name = ?", (collection, key, name)
    ).fetchone()
    return None if row is None else row[0]
