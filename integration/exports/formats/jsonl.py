"""JSON Lines: one record per line, as received from the platform.

Presets, and collections with selected columns, have one object with these columns per line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from integration.exports.formats.format import Format
from integration.exports.query import Column, ExportQuery, ExportStream
from integration.exports.selection import OpenReader, Selection
from integration.exports.sql_functions import format_duration, in_zone, with_offset
from integration.mirror.records.masking import mask_json

CHUNK_ROWS = 2000
"""Records of one chunk, the largest number held in memory."""


def stream(read: OpenReader, selection: Selection) -> ExportStream:
    """Return the file in chunks. Raises QueryError immediately."""
    return ExportStream(read, selection, chunks)


def chunks(connection: sqlite3.Connection, export_query: ExportQuery) -> Iterator[bytes]:
    if export_query.record_sql is None:
        yield from _write_objects(connection, export_query)
        return
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(
        f"SELECT CAST({export_query.record_sql} AS BLOB) FROM {export_query.table} WHERE {export_query.where}"
        f" ORDER BY {export_query.order or 'rowid'}",
        export_query.values,
    )
    while rows := cursor.fetchmany(CHUNK_ROWS):
        yield b"".join(mask_json(row[0]) + b"\n" for row in rows)


def _write_objects(connection: sqlite3.Connection, export_query: ExportQuery) -> Iterator[bytes]:
    names = [column.heading for column in export_query.columns]
    converters = {
        index: convert
        for index, column in enumerate(export_query.columns)
        if (convert := _make_converter(column, export_query)) is not None
    }
    for batch in export_query.fetch_batches(connection, CHUNK_ROWS):
        encoded_rows = []
        for row in batch:
            values = list(row)
            for index, convert in converters.items():
                values[index] = convert(values[index])
            encoded_rows.append(
                orjson.dumps(dict(zip(names, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE)
            )
        yield b"".join(encoded_rows)


def _make_converter(column: Column, export_query: ExportQuery) -> Callable[[Any], Any] | None:
    """Return the conversion of stored values for a column.

    Returns None if values are written as stored.
    """
    if column.kind == "local":
        return partial(with_offset, zone=export_query.local_zone.key)
    if column.kind == "time" and export_query.zone is not None:
        return partial(in_zone, zone=export_query.zone.key)
    if column.kind == "duration":
        return format_duration
    return _parse_json if column.kind == "json" else None


def _parse_json(value: Any) -> Any:
    """Parse JSON text. Text that is not JSON is returned unchanged."""
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except orjson.JSONDecodeError:
        return value


FORMAT = Format(
    suffix="jsonl",
    mime="application/x-ndjson",
    label="JSON Lines",
    hint="One object per line, for programs",
    stream=lambda read, selection, _options: stream(read, selection),
    order=30,
)
