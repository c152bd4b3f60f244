"""Compare the columns of collection tables with `_doc`, to find changed bytes.

A row stores each documented field twice: in its column and in `_doc`. The upsert writes both, so a difference
means that the file was changed by a disk, by memory or by another program.
"""

from __future__ import annotations

import sqlite3

from integration.catalogue.shapes import Resource
from integration.core.errors import PlatformBroken
from integration.core.json_records import JsonRecord, read_record, to_column_value
from integration.mirror.records.rows import quote_identifier
from integration.mirror.records.upsert import get_usable_key
from integration.sqlite.readers import read_tolerantly
from integration.sqlite.transaction import Transaction


class RowCheck:
    """Check of the rows of one table. `columns`: SQL of the columns that it compares."""

    def __init__(self, connection: sqlite3.Connection, resource: Resource) -> None:
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
        existing = {row[0] for row in rows}
        self._resource = resource
        self._names = [field.name for field in resource.fields if field.name in existing]
        self.columns = ("_doc", "_item", *map(quote_identifier, self._names))

    def find_fault(self, doc: str, item: str | None, *values: object) -> str | None:
        """Return a predicate for a record whose columns and `_doc` differ, else None."""
        record = _parse(doc)
        if record is None:
            return "_doc is not a JSON record"
        if item is not None and _parse(item) is None:
            return "_item is not a JSON record"
        for name, column in zip(self._names, values, strict=True):
            value = record.values.get(name)
            if value is column or (value == column and value.__class__ is column.__class__):
                continue
            is_key = name == self._resource.key
            expected = get_usable_key(self._resource, record) if is_key else to_column_value(value)
            if expected != column:
                return f"_doc and column {name} differ"
        return None

    def describe_row(self, rowid: int, *values: object) -> str:
        """Return the name of a row, with the values of its columns after `_doc` and `_item`."""
        key = self._resource.key
        return f"row {rowid}" if key is None else f"record {values[self._names.index(key)]}"


def is_intact(connection: sqlite3.Connection, resource: Resource, rowid: int) -> bool:
    """Check one row. True if it was deleted."""
    check = RowCheck(connection, resource)
    sql = f"SELECT {', '.join(check.columns)} FROM {quote_identifier(resource.table)} WHERE rowid = ?"
    rows = read_tolerantly(connection, lambda: connection.execute(sql, (rowid,)).fetchall())
    return all(check.find_fault(*row) is None for row in rows)


def mark_for_full_sync(tx: Transaction, resource: Resource, rowid: int) -> None:
    """Let the next full sync store the record of a damaged row again.

    It stores only records with another text. A blank at the end makes any text another one, and the record
    stays readable until then.
    """
    tx.execute(
        f"UPDATE {quote_identifier(resource.table)} SET _doc = rtrim(_doc) || ' ' WHERE rowid = ?", (rowid,)
    )


def _parse(text: str) -> JsonRecord | None:
    try:
        text.encode()
        return read_record(text)
    except (UnicodeEncodeError, PlatformBroken):
        return None
