"""SQL of an export: columns, rows and their order.

All file formats are written from an `ExportQuery`.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import IO, Any
from weakref import WeakSet
from zoneinfo import ZoneInfo

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.exports.columns import ColumnKind, DerivedColumn, derive_columns, is_utc_time
from integration.exports.headings import make_word_headings
from integration.exports.presets import CALL_DERIVED_COLUMNS, CALLS_NUL_CONDITION
from integration.exports.selection import BOOKKEEPING_COLUMNS, MAX_COLUMNS, OpenReader, Selection
from integration.exports.sql_functions import register
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries import history
from integration.mirror.query import browse
from integration.mirror.query.filter_sql import SqlBuilder, get_value_kind
from integration.mirror.records import dictionaries, item_forms
from integration.sqlite.same_view import open_same_view

log = logging.getLogger(__name__)

BATCH_ROWS = 2000
"""Rows per read, unless the format requires another number."""
MASK = "***"
"""Replacement of secret values."""
_NUL = "\\u0000"
"""Escape sequence of NUL in the JSON text of a record."""
_HAS_ESCAPES = f"{{0}} GLOB '*{_NUL}*' OR {{0}} GLOB '*\\u[dD][89a-fA-F]*'"
"""SQL of whether the JSON text {0} may have escape sequences of NUL or of a lone surrogate."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an export.

    `sql` is the stored value, with `values` bound in it. `strip_nul` is set if the value may contain a NUL
    that `ExportQuery.nul_condition` does not detect. `words` is its heading in words, '' without one.
    """

    name: str
    sql: str
    kind: ColumnKind
    strip_nul: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""

    @property
    def heading(self) -> str:
        """Heading in the file: words, or else the name."""
        return self.words or self.name


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """SQL of one export.

    `order` None means the order of `rowid`. `nul_condition` is SQL that is true for every row that may
    contain a NUL. `record_sql` is the JSON text of the row, None if only the columns are exported.
    `first_rowid` is the lowest rowid of the rows.
    """

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
        """Return the number of rows without the header, and their lowest rowid."""
        # The plus lets SQLite compute both from an index; without it min() scans the table.
        sql = f"SELECT count(*), min(+rowid) FROM {self.table} WHERE {self.where}"
        count, first_rowid = connection.execute(sql, self.values).fetchone()
        return count, first_rowid

    def fetch_batches(
        self, connection: sqlite3.Connection, batch_size: int | None = None
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the stored values of all rows in batches, with masked secrets.

        A batch has BATCH_ROWS rows, or `batch_size`. `on_progress` receives the number of rows consumed.
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


class ChunkedFile(Iterator[bytes]):
    """A file in chunks.

    It releases its resources after the last chunk and after an error.
    """

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
        """Compute the first chunk.

        Errors are then raised before the status of a response is sent.
        """
        first_chunk = next(self, b"")
        self._chunks = chain((first_chunk,), self._chunks)

    def close(self) -> None:
        """Release the resources. Safe to call twice."""
        # Drop the cursors first: an unfinished statement keeps its snapshot even after a rollback.
        self._chunks = iter(())
        self._open_resources.close()


TRUNCATION_MARKER = b"\r\n*** THIS EXPORT BROKE OFF AFTER AN ERROR AND IS NOT COMPLETE ***\r\n"
"""Last line of a truncated export, in any format."""


def mark_if_truncated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Append a truncation marker to an export that an error aborts.

    Granian sends the final chunk even after an exception, so clients see a complete transfer. The content of
    the file must show that it is incomplete.
    """
    try:
        yield from chunks
    except Exception:
        log.exception("export aborted after an error; its last line is the truncation marker")
        yield TRUNCATION_MARKER


CHUNK_BYTES = 1 << 16
"""Bytes of one chunk of a file that is written as a whole first."""
CHECK_SECONDS = 60.0
"""Seconds between checks for exports whose clients stopped reading."""
STALLED_SECONDS = 600.0
"""Seconds without a read before an export is aborted. Its snapshot prevents truncation of the WAL."""


class ReaderStalled(SwitchroomError):
    """The export was aborted because its client stopped reading."""


class ExportStream(ChunkedFile):
    """An export written from one snapshot of the mirror.

    The number of rows is counted in the same snapshot, so it always matches the file. If the client reads
    nothing for STALLED_SECONDS, the snapshot is released. `write_chunks` receives the connection, the query
    and a connection with the same view for each of `threads`. The constructor raises QueryError.
    """

    def __init__(
        self,
        read: OpenReader,
        selection: Selection,
        write_chunks: Callable[..., Iterator[bytes]],
        *,
        threads: int = 0,
    ) -> None:
        self._open_resources = ExitStack()
        try:
            connection, *helpers = self._open_resources.enter_context(open_same_view(read, 1 + threads))
            for helper in helpers:
                register(helper, selection.local_labels)
            self.export_query = build_export_query(connection, selection)
            self.row_count, first_rowid = self.export_query.count_rows(connection)
            self.export_query = replace(self.export_query, first_rowid=first_rowid)
            self.name = selection.file_name
            self._chunks = write_chunks(connection, self.export_query, *helpers)
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
                raise ReaderStalled(
                    f"The export {self.name} was aborted: the client read nothing for"
                    f" {STALLED_SECONDS:.0f} s."
                )
            try:
                return super().__next__()
            finally:
                self._last_read_at = clock.monotonic()

    def close_if_stalled(self) -> None:
        # A held lock means that a chunk is being computed.
        if self._read_lock.acquire(blocking=False):
            try:
                if clock.monotonic() - self._last_read_at >= STALLED_SECONDS:
                    self._is_stalled = True
                    self.close()
            finally:
                self._read_lock.release()


def stream_spooled(
    read: OpenReader,
    selection: Selection,
    write: Callable[[sqlite3.Connection, ExportQuery, Selection, IO[bytes]], object],
) -> ExportStream:
    """Stream a file that `write` can only write as a whole.

    The first chunk follows after all rows are written to a temporary file.
    """

    def spool(connection: sqlite3.Connection, export_query: ExportQuery) -> Iterator[bytes]:
        with tempfile.TemporaryFile() as file:
            write(connection, export_query, selection, file)
            file.seek(0)
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    return ExportStream(read, selection, spool)


_open_streams: WeakSet[ExportStream] = WeakSet()
_streams_lock = threading.Lock()


def close_stalled_streams() -> None:
    """Abort all exports of this process whose clients stopped reading."""
    with _streams_lock:
        streams = list(_open_streams)
    for stream in streams:
        stream.close_if_stalled()


def count(connection: sqlite3.Connection, selection: Selection) -> int:
    """Return the number of rows of an export. Raises QueryError."""
    return build_export_query(connection, selection).count_rows(connection)[0]


def build_export_query(connection: sqlite3.Connection, selection: Selection) -> ExportQuery:
    """Build the SQL of an export. Raises QueryError for unknown fields."""
    register(connection, selection.local_labels)
    parsed_query, resource = selection.dated_query, selection.resource
    is_of_calls = resource is CALLS
    binder = parsed_query.make_builder(connection)
    where = parsed_query.build_where(binder)
    derived_columns = list_derived_columns(connection, resource)
    columns = tuple(
        _build_column(binder, selection, derived_columns, name)
        for name in selection.columns or _list_found_columns(connection, resource)
    )
    if selection.has_word_headings:
        columns = _add_words(columns, selection, derived_columns)
    order = None
    if parsed_query.sort is not None:
        direction = "DESC" if parsed_query.descending else "ASC"
        order = f"{binder.build_expression(parsed_query.sort, 'sort')} {direction}, rowid"
    elif is_of_calls:
        order = f'"{resource.date}" DESC, rowid DESC'
    values = {
        **binder.values,
        **selection.bound_values,
        "has_local_labels": int(bool(selection.local_labels)),
    }
    for column in columns:
        values |= column.values
    for index, call_filter in enumerate(selection.call_filters):
        conditions, bound_values = history.build_named_conditions(connection, call_filter, f"calls{index}_")
        calls_sql = " AND ".join(conditions) or "1"
        if not is_of_calls:
            calls_sql = (
                "live_id IN (SELECT leg.leg_id FROM _calls AS c JOIN _legs AS leg ON leg.call_id = c.id"
                f" WHERE {calls_sql})"
            )
        where = f"{where} AND {calls_sql}"
        values |= bound_values
    return ExportQuery(
        name=selection.name,
        columns=columns,
        table=f'"{resource.table}"' + (" AS c" if is_of_calls else ""),
        where=where,
        order=order,
        # GLOB searches for the backslash first, in a third of the time of instr().
        nul_condition=CALLS_NUL_CONDITION if is_of_calls else f"_doc GLOB '*{_NUL}*'",
        zone=selection.zone,
        local_zone=selection.local_zone,
        record_sql="_doc" if selection.is_raw else None,
        values=values,
    )


def _add_words(
    columns: tuple[Column, ...], selection: Selection, derived_columns: Mapping[str, DerivedColumn]
) -> tuple[Column, ...]:
    headings = make_word_headings(
        [(column.name, column.kind) for column in columns],
        selection.resource,
        derived_columns.keys(),
        selection.zone.key if selection.zone else "UTC",
        selection.local_zone.key,
    )
    return tuple(replace(column, words=words) for column, words in zip(columns, headings, strict=True))


def list_derived_columns(connection: sqlite3.Connection, resource: Resource) -> Mapping[str, DerivedColumn]:
    """Return the columns in addition to the record's own fields, by name."""
    if resource is CALLS:
        return CALL_DERIVED_COLUMNS
    return derive_columns(resource, dictionaries.load_labels(connection, resource))


def list_available_columns(
    connection: sqlite3.Connection, resource: Resource, hidden_fields: frozenset[str]
) -> list[str]:
    """Return the names of all available columns except secrets and `hidden_fields`.

    The order is: documented fields, undocumented fields found in records, derived columns, bookkeeping
    columns.
    """
    names = [field.name for field in sorted(resource.fields, key=lambda field: not field.documented)]
    if resource is not CALLS:
        sample = browse.sample_fields(connection, resource)
        names += sample.undocumented
        names += sample.undocumented_in_items if item_forms.can_see(resource, hidden_fields) else ()
    names += list_derived_columns(connection, resource)
    names += () if resource is CALLS else BOOKKEEPING_COLUMNS
    return [name for name in dict.fromkeys(names) if name not in hidden_fields and not is_secret(name)]


def list_headings(connection: sqlite3.Connection, selection: Selection, names: Sequence[str]) -> list[str]:
    """Return the headings of an export with all columns of `names`."""
    binder = selection.query.make_builder(connection)
    derived_columns = list_derived_columns(connection, selection.resource)
    columns = tuple(_build_column(binder, selection, derived_columns, name) for name in names)
    if selection.has_word_headings:
        columns = _add_words(columns, selection, derived_columns)
    return [column.heading for column in columns]


def _list_found_columns(connection: sqlite3.Connection, resource: Resource) -> tuple[str, ...]:
    """Return the documented fields, then those found in records."""
    documented = tuple(field.name for field in resource.fields)
    found = browse.sample_fields(connection, resource).undocumented
    return (*documented, *found)[:MAX_COLUMNS] or BOOKKEEPING_COLUMNS[:2]


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
        # The column may show that a PIN is set. Filters cannot use it, or its value could be guessed.
        return Column(name, binder.build_value(name) or "NULL", "secret")
    binder.build_expression(name, "columns")
    sql = binder.build_value(name) or "NULL"
    if is_secret(name):
        return Column(name, sql, "secret")
    if field is not None and is_utc_time(resource, field):
        # A preset has a separate column for the local time.
        return Column(name, sql, "time" if selection.preset is None else "utc")
    is_nested = field is not None and field.actual_type in ("array", "object")
    if texts := [text for text in ("_doc", "_item") if f"json_extract({text}," in sql]:
        # json_extract truncates a text at a NUL and writes a lone surrogate as invalid UTF-8; field_of is
        # exact.
        has_escapes = " OR ".join(_HAS_ESCAPES.format(text) for text in texts)
        sql = f"CASE WHEN {has_escapes} THEN {sql.replace('json_extract', 'field_of')} ELSE {sql} END"
    if is_nested or field is None:
        # A nested value may contain a PIN.
        sql = f"CASE WHEN {sql} GLOB '[[{{]*' THEN without_secrets({sql}) ELSE {sql} END"
    kind = "json" if is_nested else get_value_kind(field, resource)
    return Column(name, sql, kind, strip_nul="_item" in texts)


def _mask_sql(column: Column) -> str:
    if column.kind == "secret":
        return f"CASE WHEN {column.sql} IS NOT NULL THEN '{MASK}' END"
    return column.sql
