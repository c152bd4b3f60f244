"""JSON Lines: each record as the platform sent it, one per line; ready-made exports, and collections whose
columns were chosen, by their columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from integration.exports.query import Column, Sheet, Stream
from integration.exports.selection import Reader, Selection
from integration.exports.sql_functions import clock_of, in_zone, with_offset
from integration.mirror.records.masking import masked

LINES = 2000


def stream(read: Reader, selection: Selection, *, lines: int = LINES) -> Stream:
    """The file in chunks. Raises QueryError at once."""
    return Stream(read, selection, partial(chunks, lines=lines))


def chunks(connection: sqlite3.Connection, sheet: Sheet, *, lines: int = LINES) -> Iterator[bytes]:
    if sheet.document is None:
        yield from _objects(connection, sheet, lines)
        return
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(
        f"SELECT CAST({sheet.document} AS BLOB) FROM {sheet.table} WHERE {sheet.where}"
        f" ORDER BY {sheet.order or 'rowid'}",
        sheet.values,
    )
    while rows := cursor.fetchmany(lines):
        yield b"".join(masked(row[0]) + b"\n" for row in rows)


def _objects(connection: sqlite3.Connection, sheet: Sheet, lines: int) -> Iterator[bytes]:
    names = [column.name for column in sheet.columns]
    change = {
        number: function
        for number, column in enumerate(sheet.columns)
        if (function := _written(column, sheet)) is not None
    }
    for batch in sheet.rows(connection, lines):
        written = []
        for row in batch:
            values = list(row)
            for number, function in change.items():
                values[number] = function(values[number])
            written.append(
                orjson.dumps(dict(zip(names, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
            )
        yield b"".join(written)


def _written(column: Column, sheet: Sheet) -> Callable[[Any], Any] | None:
    """How a column's cells differ from what is stored; None where they don't."""
    if column.kind == "local":
        return partial(with_offset, zone=sheet.local.key)
    if column.kind == "time" and sheet.zone is not None:
        return partial(in_zone, zone=sheet.zone.key)
    if column.kind == "duration":
        return clock_of
    return _inside if column.kind == "json" else None


def _inside(value: Any) -> Any:
    """A list or an object as such; what is no JSON stays the text it is."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value
