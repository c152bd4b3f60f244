"""JSON Lines: each record as the platform sent it, one per line; calls, which are ours, by their columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial

import orjson

from integration.exports.selection import Reader, Selection
from integration.exports.sheet import Sheet, Stream, in_zone, with_offset
from integration.mirror.masking import masked

LINES = 2000


def stream(read: Reader, selection: Selection, *, lines: int = LINES) -> Stream:
    """The file in chunks. A collection's records are never cut: columns and zone are for presets and CSV.

    Raises QueryError at once.
    """
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
        yield b"".join((masked(row[0]) if sheet.masked else row[0]) + b"\n" for row in rows)


def _objects(connection: sqlite3.Connection, sheet: Sheet, lines: int) -> Iterator[bytes]:
    names = [column.name for column in sheet.columns]
    zone = sheet.zone.key if sheet.zone else "UTC"
    change = {
        number: with_offset if column.kind == "local" else in_zone
        for number, column in enumerate(sheet.columns)
        if column.kind in ("time", "local")
    }
    for batch in sheet.rows(connection, lines):
        written = []
        for row in batch:
            values = list(row)
            for number, function in change.items():
                values[number] = function(values[number], zone)
            written.append(
                orjson.dumps(dict(zip(names, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
            )
        yield b"".join(written)
