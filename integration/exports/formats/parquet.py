"""Parquet, for DuckDB, ClickHouse, Spark and pandas.

Every column has the type documented in the catalogue, so files of different months always have compatible
schemas. A value of another type is written to `_unfit` (JSON text by column), and its own cell is empty.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import IO, Any

import orjson

from integration.core.errors import QueryError
from integration.exports.formats.format import Format
from integration.exports.query import Column, ExportQuery, ExportStream, stream_spooled
from integration.exports.selection import OpenReader, Selection
from integration.exports.sql_functions import format_duration, parse_utc, with_offset

GROUP_ROWS = 50_000
"""Rows of one row group, the largest number held in memory."""
UNFIT_COLUMN = "_unfit"
_INT64_LIMIT = 2**63


def stream(read: OpenReader, selection: Selection) -> ExportStream:
    """Return the file in chunks. Raises QueryError immediately, also if pyarrow is not installed."""
    import_pyarrow()
    return stream_spooled(read, selection, _write)


def _write(
    connection: sqlite3.Connection, export_query: ExportQuery, _selection: Selection, file: IO[bytes]
) -> object:
    return write(connection, export_query, file)


def write(
    connection: sqlite3.Connection,
    export_query: ExportQuery,
    file: IO[bytes],
    metadata: Mapping[bytes, bytes] | None = None,
) -> int:
    """Write the file with `metadata`. Returns the number of rows."""
    arrow = import_pyarrow()
    from pyarrow.parquet import ParquetWriter

    converters = [_make_converter(column, export_query) for column in export_query.columns]
    schema = arrow.schema(
        [(column.heading, _arrow_type(arrow, column, export_query)) for column in export_query.columns]
        + [(UNFIT_COLUMN, arrow.string())],
        metadata=metadata,
    )
    row_count = 0
    with ParquetWriter(file, schema, compression="zstd") as writer:  # type: ignore[no-untyped-call]
        for batch in export_query.fetch_batches(connection, GROUP_ROWS):
            writer.write_table(
                arrow.table(_convert_batch(batch, export_query.columns, converters), schema=schema)
            )
            row_count += len(batch)
    return row_count


def import_pyarrow() -> Any:
    """Return the module pyarrow. Raises QueryError if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise QueryError(
            "Parquet and object storage require the package pyarrow: pip install pyarrow"
        ) from None
    return pyarrow


def _arrow_type(arrow: Any, column: Column, export_query: ExportQuery) -> Any:
    if column.kind in ("time", "utc"):
        # The zone changes how a program shows the instant, not the instant.
        zone = export_query.zone if column.kind == "time" else None
        return arrow.timestamp("s", tz=zone.key if zone else "UTC")
    if column.kind == "number":
        return arrow.int64()
    return {"decimal": arrow.float64(), "boolean": arrow.bool_()}.get(column.kind, arrow.string())


Converter = Callable[[Any], Any]
"""Converts a stored value to the type of its column. Raises ValueError for a value of another type."""


def _convert_batch(
    batch: list[tuple[Any, ...]], columns: tuple[Column, ...], converters: list[Converter]
) -> dict[str, list[Any]]:
    unfit: dict[int, dict[str, Any]] = {}
    cells: dict[str, list[Any]] = {}
    for column_index, (column, convert) in enumerate(zip(columns, converters, strict=True)):
        converted = []
        for row_index, row in enumerate(batch):
            value = row[column_index]
            try:
                converted.append(None if value is None else convert(value))
            except ValueError:
                converted.append(None)
                unfit.setdefault(row_index, {})[column.heading] = value
        cells[column.heading] = converted
    cells[UNFIT_COLUMN] = [
        orjson.dumps(unfit[row_index]).decode() if row_index in unfit else None
        for row_index in range(len(batch))
    ]
    return cells


def _make_converter(column: Column, export_query: ExportQuery) -> Converter:
    if column.kind in ("time", "utc"):
        return _to_moment
    if column.kind == "number":
        return _to_integer
    if column.kind == "duration":
        return lambda value: str(format_duration(value))
    if column.kind == "decimal":
        return _to_float
    if column.kind == "boolean":
        return _to_boolean
    if column.kind == "local":
        zone = export_query.local_zone.key
        return lambda value: str(with_offset(value, zone))
    return str


def _to_moment(value: Any) -> Any:
    moment = parse_utc(value)
    if moment is None:
        raise ValueError(value)
    return moment


def _to_integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) < _INT64_LIMIT:
        return int(value)
    if not isinstance(value, int):
        raise ValueError(value)
    return value


def _to_float(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(value)
    return float(value)


def _to_boolean(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError(value)
    return bool(value)


FORMAT = Format(
    suffix="parquet",
    mime="application/vnd.apache.parquet",
    label="Parquet",
    hint="For DuckDB, pandas and similar programs",
    stream=lambda read, selection, _options: stream(read, selection),
    order=40,
    background_above=50_000,
    write=_write,
    has_month_sets=True,
    package="pyarrow",
)
