"""Compare the columns of collection tables with `_doc`, to find changed bytes.

A row stores each documented field twice: in its column and in `_doc`. The upsert writes both, so a difference
means that the file was changed by a disk, by memory or by another program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.catalogue.shapes import Resource
from integration.core.errors import PlatformBroken
from integration.core.ids import id_list
from integration.core.json_records import JsonRecord, read_record, to_column_value
from integration.mirror.records.rows import Key, quote_identifier
from integration.mirror.records.upsert import get_usable_key, upsert
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.transaction import Transaction

UNREADABLE = "is not a JSON record"
EMPTY_DOC = "{}"
"""`_doc` of a row that is being replaced."""


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """Row whose columns and `_doc` differ.

    `rowid`: position in the table. `key`: its key column; None in a collection without keys. `fault`: a
    predicate for the record.
    """

    rowid: int
    key: Key | None
    fault: str

    @property
    def is_unreadable(self) -> bool:
        """True if a text of the row is not JSON."""
        return self.fault.endswith(UNREADABLE)


def check_rows(
    connection: sqlite3.Connection, resource: Resource, after: int | None, limit: int
) -> tuple[int | None, int, list[DamagedRow]]:
    """Check at most `limit` rows with a rowid above `after`.

    None starts with the first row. Returns the last rowid (None without a row), the number of rows and the
    damaged rows.
    """
    return _check(
        connection, resource, "WHERE (?1 IS NULL OR rowid > ?1) ORDER BY rowid LIMIT ?2", (after, limit)
    )


def find_fault(connection: sqlite3.Connection, resource: Resource, rowid: int) -> DamagedRow | None:
    """Check one row. Returns None if it is intact or was deleted."""
    _, _, damaged = _check(connection, resource, "WHERE rowid = ?", (rowid,))
    return damaged[0] if damaged else None


def replace_damaged(
    tx: Transaction, resource: Resource, row: DamagedRow, record: JsonRecord, requested_at: str
) -> None:
    """Store the platform's `record` in place of a damaged row.

    The upsert compares texts and times of the row, which can be damaged too, so both are reset first.
    """
    columns = ", ".join(
        f"{quote_identifier(field.name)} = NULL" for field in resource.fields if field.name != resource.key
    )
    assignments = ", ".join(filter(None, ("_doc = ?", "_item = NULL", "_last_seen = ''", columns)))
    tx.execute(
        f"UPDATE {quote_identifier(resource.table)} SET {assignments} WHERE rowid = ?", (EMPTY_DOC, row.rowid)
    )
    upsert(tx, resource, [record], source="sync", requested_at=requested_at)
    # The gates of an erasure or of the retention accept no record that was removed.
    tx.execute(
        f"DELETE FROM {quote_identifier(resource.table)} WHERE rowid = ? AND _doc = ?", (row.rowid, EMPTY_DOC)
    )


def empty_unreadable(tx: Transaction, resource: Resource, row: DamagedRow) -> None:
    """Empty an unreadable `_doc`, so that a full sync replaces it."""
    if row.is_unreadable:
        tx.execute(
            f"UPDATE {quote_identifier(resource.table)} SET _doc = ?, _item = NULL WHERE rowid = ?",
            (EMPTY_DOC, row.rowid),
        )


def rewrite_columns(tx: Transaction, resource: Resource, rowid: int) -> None:
    """Write the columns of a row from its `_doc`."""
    table = quote_identifier(resource.table)
    stored = tx.execute(f"SELECT _doc FROM {table} WHERE rowid = ?", (rowid,)).fetchone()
    if stored is None:
        return
    values = read_record(stored[0]).values
    names = [field.name for field in resource.fields if field.name != resource.key]
    assignments = ", ".join(f"{quote_identifier(name)} = ?" for name in names)
    tx.execute(
        f"UPDATE {table} SET {assignments} WHERE rowid = ?",
        (*(to_column_value(values.get(name)) for name in names), rowid),
    )


def list_rows_of_legs(
    connection: sqlite3.Connection, resource: Resource, fields: Sequence[str], leg_ids: Sequence[int]
) -> list[int]:
    """Return the rowids of records that name a leg in `fields`."""
    condition = " OR ".join(
        f"{quote_identifier(name)} IN (SELECT value FROM json_each(?1))" for name in fields
    )
    rows = connection.execute(
        f"SELECT rowid FROM {quote_identifier(resource.table)} WHERE {condition}",
        (id_list([*leg_ids, *map(str, leg_ids)]),),
    )
    return [row[0] for row in rows]


def sample_rowid(connection: sqlite3.Connection, resource: Resource) -> int | None:
    """Return a random rowid before which no sample starts.

    None for an empty table.
    """
    row = connection.execute(
        "SELECT lowest + abs(random() % (highest - lowest + 1)) - 1 FROM"
        f" (SELECT min(rowid) AS lowest, max(rowid) AS highest FROM {quote_identifier(resource.table)})"
        " WHERE lowest IS NOT NULL"
    ).fetchone()
    return None if row is None else int(row[0])


def count_rows(connection: sqlite3.Connection, resource: Resource) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {quote_identifier(resource.table)}").fetchone()[0])


def _check(
    connection: sqlite3.Connection, resource: Resource, condition: str, parameters: Sequence[object]
) -> tuple[int | None, int, list[DamagedRow]]:
    existing = {
        row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
    }
    names = [field.name for field in resource.fields if field.name in existing]
    columns = ", ".join(("rowid", "_doc", "_item", *map(quote_identifier, names)))
    sql = f"SELECT {columns} FROM {quote_identifier(resource.table)} {condition}"

    def read() -> tuple[int | None, int, list[DamagedRow]]:
        last_rowid, row_count, damaged = None, 0, list[DamagedRow]()
        # An open statement is a reader, beside which the WAL of the writer grows.
        for rowid, doc, item, *values in connection.execute(sql, parameters).fetchall():
            last_rowid, row_count = rowid, row_count + 1
            stored = dict(zip(names, values, strict=True))
            if (fault := _find_row_fault(resource, doc, item, stored)) is not None:
                damaged.append(DamagedRow(rowid, stored.get(resource.key or ""), fault))
        return last_rowid, row_count, damaged

    return read_tolerantly(connection, read)


def _find_row_fault(resource: Resource, doc: str, item: str | None, stored: dict[str, object]) -> str | None:
    record = _parse(doc)
    if record is None:
        return f"_doc {UNREADABLE}"
    if item is not None and _parse(item) is None:
        return f"_item {UNREADABLE}"
    values = record.values
    for name, column in stored.items():
        value = values.get(name)
        if value is column or (value == column and value.__class__ is column.__class__):
            continue
        expected = get_usable_key(resource, record) if name == resource.key else to_column_value(value)
        if expected != column:
            return f"_doc and column {name} differ"
    return None


def _parse(text: str) -> JsonRecord | None:
    try:
        text.encode()
        return read_record(text)
    except (UnicodeEncodeError, PlatformBroken):
        return None
