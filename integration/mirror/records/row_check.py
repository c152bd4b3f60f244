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
from integration.core.json_records import JsonRecord, read_record, to_column_value
from integration.mirror.records.rows import Key, quote_identifier
from integration.mirror.records.upsert import get_usable_key
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """Row whose columns and `_doc` differ.

    `rowid`: position in the table. `key`: its key column; None in a collection without keys. `fault`: a
    predicate for the record.
    """

    rowid: int
    key: Key | None
    fault: str


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


def mark_for_full_sync(tx: Transaction, resource: Resource, rowid: int) -> None:
    """Let the next full sync store the record of a damaged row again.

    It stores only records with another text. A blank at the end makes any text another one, and the record
    stays readable until then.
    """
    tx.execute(
        f"UPDATE {quote_identifier(resource.table)} SET _doc = rtrim(_doc) || ' ' WHERE rowid = ?", (rowid,)
    )


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
        return "_doc is not a JSON record"
    if item is not None and _parse(item) is None:
        return "_item is not a JSON record"
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
