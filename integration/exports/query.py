"""One export as SQL: its columns, its rows, their order. Every form of file is written from a
`ExportQuery`."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal
from weakref import WeakSet
from zoneinfo import ZoneInfo

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.exports.columns import DerivedColumn, derive_columns, is_utc_time
from integration.exports.presets import Preset
from integration.exports.selection import BOOKKEEPING_COLUMNS, MAX_COLUMNS, OpenReader, Selection
from integration.exports.sql_functions import register
from integration.mirror.page_queries import history
from integration.mirror.query import browse
from integration.mirror.query.filter_sql import SqlBuilder, get_value_kind
from integration.mirror.records import dictionaries

log = logging.getLogger(__name__)

ColumnKind = Literal[
    "text", "json", "time", "utc", "local", "number", "decimal", "boolean", "any", "duration", "secret"
]
"""What a column's cells are. `time` is UTC text, written in the export's zone where it has one; `utc` stays
as it is and `local` is written with its zone's offset; `duration` is seconds, written as h:mm:ss; `json` is a
list or an object, as JSON text. Any of them may hold text that drifted in."""

BATCH_ROWS = 2000
"""Rows read at a time, unless the format needs another number."""
MASK = "***"
_NUL = "\\u0000"
"""How a NUL stands in the JSON text of a record."""
_HAS_ESCAPES = f"(_doc GLOB '*{_NUL}*' OR _doc GLOB '*\\u[dD][89a-fA-F]*')"


@dataclass(frozen=True, slots=True)
class Column:
    """`sql` is the value as stored, with `values` bound in it; `strip_nul` is set where it may hold a NUL
    that `ExportQuery.nul_condition` misses."""

    name: str
    sql: str
    kind: ColumnKind
    strip_nul: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """`order` None is the order of `rowid`. `nul_condition` is SQL, true for every row in which a NUL may
    stand; `record_sql` is the row's JSON text, None where the columns are all there is; `first_rowid` the
    lowest rowid."""

    name: str
    columns: tuple[Column, ...]
    table: str
    where: str
    order: str | None
    nul_condition: str
    zone: ZoneInfo | None
    local_zone: ZoneInfo
    record_sql: str | None = None
    first_rowid: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    on_progress: Callable[[int], object] = int

    def count_rows(self, connection: sqlite3.Connection) -> tuple[int, int | None]:
        """How many rows the file has, its header apart, and the lowest rowid among them."""
        # The plus lets an index answer both; without it SQLite walks the table for the first.
        sql = f"SELECT count(*), min(+rowid) FROM {self.table} WHERE {self.where}"
        count, first_rowid = connection.execute(sql, self.values).fetchone()
        return count, first_rowid

    def fetch_batches(
        self, connection: sqlite3.Connection, batch_size: int | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the values of all rows as stored, secrets masked, in batches.

        A batch has BATCH_ROWS rows, or `batch_size`. `on_progress` is called with the number of rows written.
        """
        cells = ", ".join(_mask_sql(column) for column in self.columns)
        cursor = connection.cursor()
        cursor.row_factory = None
        cursor.execute(
            f"SELECT {cells} FROM {self.table} WHERE {self.where} ORDER BY {self.order or 'rowid'}",
            self.values,
        )
        count = 0
        while batch := cursor.fetchmany(batch_size or BATCH_ROWS):
            yield batch
            count += len(batch)
            self.on_progress(count)


ChunkWriter = Callable[[sqlite3.Connection, ExportQuery], Iterator[bytes]]


class ChunkedFile(Iterator[bytes]):
    """A file in chunks, that gives back what it holds open after the last of them and after an error."""

    name: str
    row_count: int
    _chunks: Iterator[bytes]
    _open_resources: ExitStack

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def prefetch(self) -> None:
        """Do what comes before the first chunk, so that its errors come before a response's status."""
        first_chunk = next(self, b"")
        self._chunks = chain((first_chunk,), self._chunks)

    def close(self) -> None:
        """Give it back before. Safe to call twice."""
        # First what reads: a statement that is not at its end holds its view whatever is rolled back.
        self._chunks = iter(())
        self._open_resources.close()


TRUNCATION_MARKER = b"\r\n*** THIS EXPORT BROKE OFF AFTER AN ERROR AND IS NOT COMPLETE ***\r\n"


def mark_if_truncated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The file; after an error with a last line that no reader takes for a record.

    The server ends the transfer normally in either case (Granian sends the final chunk after an exception
    too), so the file itself has to show that it is not complete.
    """
    try:
        yield from chunks
    except Exception:
        log.exception("an export broke off")
        yield TRUNCATION_MARKER


STALLED_SECONDS = 600.0
"""A reader who takes nothing for so long loses the view: as long as it is held the write-ahead log grows."""


class ReaderStalled(SwitchroomError):
    """The rest of the file is not to be had any more."""


class ExportStream(ChunkedFile):
    """Written from one view of the mirror: what is counted before the first chunk is what the file holds,
    whatever changes meanwhile. The view is given back to the mirror where nobody takes the chunks.

    Raises QueryError when made.
    """

    def __init__(self, read: OpenReader, selection: Selection, write_chunks: ChunkWriter) -> None:
        self._open_resources = ExitStack()
        try:
            connection = self._open_resources.enter_context(read())
            self.export_query = build_export_query(connection, selection)
            self.row_count, first_rowid = self.export_query.count_rows(connection)
            self.export_query = replace(self.export_query, first_rowid=first_rowid)
            self.name = selection.name
            self._chunks = write_chunks(connection, self.export_query)
        except BaseException:
            self._open_resources.close()
            raise
        self._read_lock = threading.Lock()
        self._last_read_at = clock.monotonic()
        self._is_stalled = False
        with _streams_lock:
            _open_streams.add(self)

    def __next__(self) -> bytes:
        with self._read_lock:
            if self._is_stalled:
                raise ReaderStalled(f"nobody took any of {self.name} for {STALLED_SECONDS:.0f} s")
            try:
                return super().__next__()
            finally:
                self._last_read_at = clock.monotonic()

    def close_if_stalled(self) -> None:
        # Else it is at work.
        if self._read_lock.acquire(blocking=False):
            try:
                if clock.monotonic() - self._last_read_at >= STALLED_SECONDS:
                    self._is_stalled = True
                    self.close()
            finally:
                self._read_lock.release()


_open_streams: WeakSet[ExportStream] = WeakSet()
_streams_lock = threading.Lock()


def close_stalled_streams() -> None:
    """Look after every file that is under way in this process."""
    with _streams_lock:
        streams = list(_open_streams)
    for stream in streams:
        stream.close_if_stalled()


def count(connection: sqlite3.Connection, selection: Selection) -> int:
    """How many rows the file would have. Raises QueryError."""
    return build_export_query(connection, selection).count_rows(connection)[0]


def build_export_query(connection: sqlite3.Connection, selection: Selection) -> ExportQuery:
    """The SQL of an export. Raises QueryError for what no record has."""
    register(connection)
    parsed_query, resource, preset = selection.query, selection.resource, selection.preset
    has_own_table = preset is not None and preset.has_own_table
    binder = parsed_query.make_builder(connection)
    where = parsed_query.build_where(binder)
    derived_columns = list_derived_columns(connection, resource, preset)
    columns = tuple(
        _build_column(binder, selection, derived_columns, name)
        for name in selection.columns or _list_found_columns(connection, resource)
    )
    order = None
    if parsed_query.sort is not None:
        direction = "DESC" if parsed_query.descending else "ASC"
        order = f"{binder.build_expression(parsed_query.sort, 'sort')} {direction}, rowid"
    elif preset is not None and preset.newest_first:
        order = f'"{resource.date}" DESC, rowid DESC'
    values = {**binder.values, **selection.bound_values}
    for column in columns:
        values |= column.values
    for index, call_filter in enumerate(selection.call_filters):
        conditions, bound_values = history.build_named_conditions(connection, call_filter, f"calls{index}_")
        calls_sql = " AND ".join(conditions) or "1"
        if not has_own_table:
            calls_sql = (
                "live_id IN (SELECT leg.leg_id FROM _calls AS c JOIN _legs AS leg ON leg.call_id = c.id"
                f" WHERE {calls_sql})"
            )
        where = f"{where} AND {calls_sql}"
        values |= bound_values
    return ExportQuery(
        name=preset.name if preset else resource.table,
        columns=columns,
        table=f'"{resource.table}"' + (" AS c" if has_own_table else ""),
        where=where,
        order=order,
        # GLOB looks for the backslash first: a third of what instr() costs.
        nul_condition=_build_nul_condition(preset)
        if preset is not None and has_own_table
        else f"_doc GLOB '*{_NUL}*'",
        zone=selection.zone,
        local_zone=selection.local_zone,
        record_sql="_doc" if selection.is_raw else None,
        values=values,
    )


def _build_nul_condition(preset: Preset) -> str:
    names = [field.name for field in preset.resource.fields if field.type == "string"]
    return f"instr({' || '.join(f'''coalesce({name}, '')''' for name in names)}, char(0))"


def list_derived_columns(
    connection: sqlite3.Connection, resource: Resource, preset: Preset | None
) -> Mapping[str, DerivedColumn]:
    """The columns that may be asked for beside the record's own fields, by name."""
    if preset is not None and preset.has_own_table:
        return {column.name: column for column in preset.derived_columns}
    return derive_columns(resource, dictionaries.load_labels(connection, resource))


def list_available_columns(
    connection: sqlite3.Connection, resource: Resource, preset: Preset | None
) -> list[str]:
    """Every column that may be asked for, secrets apart: documented fields, then others that records have,
    then what is made of them, then our bookkeeping."""
    has_own_table = preset is not None and preset.has_own_table
    fields = [field for field in resource.fields if not field.item_only and not is_secret(field.name)]
    names = [field.name for field in sorted(fields, key=lambda field: not field.documented)]
    undocumented = () if has_own_table else browse.sample_fields(connection, resource).undocumented
    derived_columns = list_derived_columns(connection, resource, preset)
    return list(
        dict.fromkeys(
            [*names, *undocumented, *derived_columns, *(() if has_own_table else BOOKKEEPING_COLUMNS)]
        )
    )


def _list_found_columns(connection: sqlite3.Connection, resource: Resource) -> tuple[str, ...]:
    """Columns of a collection whose fields nobody documented: those that its records have."""
    return browse.sample_fields(connection, resource).undocumented[:MAX_COLUMNS] or BOOKKEEPING_COLUMNS[:2]


def _build_column(
    binder: SqlBuilder, selection: Selection, derived_columns: Mapping[str, DerivedColumn], name: str
) -> Column:
    resource = selection.resource
    field = resource.field(name)
    if field is None and (derived_column := derived_columns.get(name)) is not None:
        return Column(
            name,
            derived_column.sql,
            derived_column.kind,
            strip_nul=derived_column.kind == "text",
            values=derived_column.values,
        )
    if name in BOOKKEEPING_COLUMNS:
        return Column(name, name, "text")
    if field is not None and is_secret(name):
        # That a PIN is set may be known, so the column stands there; by a filter its value could be guessed.
        return Column(name, f'"{name}"', "secret")
    sql = binder.build_expression(name, "columns")
    if is_secret(name):
        return Column(name, sql, "secret")
    if field is not None and is_utc_time(resource, field):
        # A preset has a column of its own for the local time.
        return Column(name, sql, "time" if selection.preset is None else "utc")
    is_nested = field is not None and field.actual_type in ("array", "object")
    if sql.startswith("json_extract("):
        # It ends a text at its NUL and writes half a surrogate pair as broken UTF-8; reading does neither.
        sql = f"CASE WHEN {_HAS_ESCAPES} THEN {sql.replace('json_extract', 'field_of', 1)} ELSE {sql} END"
    if is_nested or field is None:
        # What lies deeper may be a PIN as well.
        sql = f"CASE WHEN {sql} GLOB '[[{{]*' THEN without_secrets({sql}) ELSE {sql} END"
    return Column(name, sql, "json" if is_nested else get_value_kind(field, resource))


def _mask_sql(column: Column) -> str:
    if column.kind == "secret":
        return f"CASE WHEN {column.sql} IS NOT NULL THEN '{MASK}' END"
    return column.sql
