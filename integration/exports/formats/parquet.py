"""Parquet, for DuckDB, ClickHouse, Spark and pandas: one file, or a data set with a folder for each month.

Every column has the type that the catalogue documents, so that files of different months always fit together;
a value of another type stands in `_unfit` (JSON text by column) and leaves its own cell empty.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from integration.core import atomic_files as durable
from integration.core.errors import QueryError, StorageError
from integration.exports.query import Column, Sheet, Stream, sheet_of
from integration.exports.selection import Reader, Selection
from integration.exports.sql_functions import clock_of, moment_of, with_offset

ROWS = 50_000
"""Rows of one row group; what is held in memory."""
PIECE = 1 << 16
UNFIT = "_unfit"
UNDATED = "undated"
_INT64 = 2**63


def stream(read: Reader, selection: Selection) -> Stream:
    """The file in chunks, the first of them when all rows are written (to a temporary file).

    Raises QueryError at once, also where pyarrow is not installed.
    """
    _arrow()
    return Stream(read, selection, chunks)


def chunks(connection: sqlite3.Connection, sheet: Sheet) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        write(connection, sheet, file)
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece


def write(connection: sqlite3.Connection, sheet: Sheet, file: IO[bytes]) -> int:
    """Write the file; returns how many rows it has."""
    arrow = _arrow()
    from pyarrow.parquet import ParquetWriter

    fitters = [_fitter(column, sheet) for column in sheet.columns]
    schema = arrow.schema(
        [(column.name, _type(arrow, column)) for column in sheet.columns] + [(UNFIT, arrow.string())]
    )
    written = 0
    with ParquetWriter(file, schema, compression="zstd") as writer:  # type: ignore[no-untyped-call]
        for batch in sheet.rows(connection, ROWS):
            writer.write_table(arrow.table(_cells(batch, sheet.columns, fitters), schema=schema))
            written += len(batch)
    return written


def write_months(read: Reader, selection: Selection, folder: Path) -> dict[str, int]:
    """Write `folder/month=YYYY-MM/part-0.parquet` for every (UTC) month of the selection, all from one view;
    returns the rows of each. A month's file is replaced in one step when it is whole, so that the same data
    set may be written again every night; months beside the selection are left alone.

    Raises QueryError where the records have no date, StorageError.
    """
    _arrow()
    date = selection.resource.date
    if date is None:
        raise QueryError(f"partition-by: {selection.name} has no date to part it by")
    done: dict[str, int] = {}
    with read() as connection:
        sheet = sheet_of(connection, selection)
        month = (
            f'CASE WHEN "{date}" GLOB \'[0-9][0-9][0-9][0-9]-[01][0-9]-*\' THEN substr("{date}", 1, 7) END'
        )
        sql = f"SELECT DISTINCT {month} FROM {sheet.table} WHERE {sheet.where}"
        for (name,) in connection.execute(sql, sheet.values).fetchall():
            part = replace(
                sheet, where=f"({sheet.where}) AND {month} IS :month", values={**sheet.values, "month": name}
            )
            target = folder / f"month={name or UNDATED}" / "part-0.parquet"
            done[name or UNDATED] = _replaced(target, partial(write, connection, part))
    return done


def _replaced(target: Path, work: Callable[[IO[bytes]], int]) -> int:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with durable.replacing(target) as file:
            return work(file)
    except OSError as error:
        raise StorageError(f"{target}: can't be written ({error.strerror})") from error


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise QueryError("Parquet needs one more package: pip install 'switchroom[parquet]'") from None
    return pyarrow


def _type(arrow: Any, column: Column) -> Any:
    if column.kind in ("time", "utc"):
        return arrow.timestamp("s", tz="UTC")
    if column.kind == "number":
        return arrow.int64()
    return {"decimal": arrow.float64(), "boolean": arrow.bool_()}.get(column.kind, arrow.string())


Fitter = Callable[[Any], Any]
"""A stored value as its column's type has it; raises ValueError for one that does not fit."""


def _cells(
    batch: list[tuple[Any, ...]], columns: tuple[Column, ...], fitters: list[Fitter]
) -> dict[str, list[Any]]:
    unfit: dict[int, dict[str, Any]] = {}
    cells: dict[str, list[Any]] = {}
    for place, (column, fit) in enumerate(zip(columns, fitters, strict=True)):
        fitted = []
        for number, row in enumerate(batch):
            value = row[place]
            try:
                fitted.append(None if value is None else fit(value))
            except ValueError:
                fitted.append(None)
                unfit.setdefault(number, {})[column.name] = value
        cells[column.name] = fitted
    cells[UNFIT] = [
        orjson.dumps(unfit[number]).decode() if number in unfit else None for number in range(len(batch))
    ]
    return cells


def _fitter(column: Column, sheet: Sheet) -> Fitter:
    if column.kind in ("time", "utc"):
        return _moment
    if column.kind == "number":
        return _whole
    if column.kind == "duration":
        return lambda value: str(clock_of(value))
    if column.kind == "decimal":
        return _decimal
    if column.kind == "boolean":
        return _truth
    if column.kind == "local":
        zone = sheet.local.key
        return lambda value: str(with_offset(value, zone))
    return str


def _moment(value: Any) -> Any:
    moment = moment_of(value)
    if moment is None:
        raise ValueError(value)
    return moment


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
        return int(value)
    if not isinstance(value, int):
        raise ValueError(value)
    return value


def _decimal(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(value)
    return float(value)


def _truth(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError(value)
    return bool(value)
