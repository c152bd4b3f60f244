"""One export as SQL: its columns, its rows, their order. Every form of file is written from a `Sheet`."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal
from weakref import WeakSet
from zoneinfo import ZoneInfo

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.exports.columns import Extra, is_moment, made
from integration.exports.presets import Preset
from integration.exports.selection import BOOKKEEPING, MOST_COLUMNS, Reader, Selection
from integration.exports.sql_functions import register
from integration.mirror.page_queries import history
from integration.mirror.query import browse
from integration.mirror.query.filter_sql import Binder, kind_of
from integration.mirror.records import dictionaries
from integration.mirror.records.masking import is_secret

Kind = Literal[
    "text", "json", "time", "utc", "local", "number", "decimal", "boolean", "any", "duration", "secret"
]
"""What a column's cells are. `time` is UTC text, written in the export's zone where it has one; `utc` stays
as it is and `local` is written with its zone's offset; `duration` is seconds, written as h:mm:ss; `json` is a
list or an object, as JSON text. Any of them may hold text that drifted in."""

MASK = "***"
_NUL = "\\u0000"
"""How a NUL stands in the JSON text of a record."""
_ESCAPED = f"(_doc GLOB '*{_NUL}*' OR _doc GLOB '*\\u[dD][89a-fA-F]*')"


@dataclass(frozen=True, slots=True)
class Column:
    """`sql` is the value as stored, with `values` bound in it; `clean` is set where it may hold a NUL that
    `Sheet.suspicious` misses."""

    name: str
    sql: str
    kind: Kind
    clean: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sheet:
    """`order` None is the order of `rowid`. `suspicious` is SQL, true for every row in which a NUL may stand;
    `document` is the row's JSON text, None where the columns are all there is; `first` the lowest rowid."""

    name: str
    columns: tuple[Column, ...]
    table: str
    where: str
    order: str | None
    suspicious: str
    zone: ZoneInfo | None
    local: ZoneInfo
    document: str | None = None
    first: int | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def extent(self, connection: sqlite3.Connection) -> tuple[int, int | None]:
        """How many rows the file has, its header apart, and the lowest rowid among them."""
        # The plus lets an index answer both; without it SQLite walks the table for the first.
        sql = f"SELECT count(*), min(+rowid) FROM {self.table} WHERE {self.where}"
        count, first = connection.execute(sql, self.values).fetchone()
        return count, first

    def rows(self, connection: sqlite3.Connection, at_once: int = 2000) -> Iterator[list[tuple[Any, ...]]]:
        """The values of all rows as stored, secrets masked, in batches."""
        cells = ", ".join(_masked(column) for column in self.columns)
        cursor = connection.cursor()
        cursor.row_factory = None
        cursor.execute(
            f"SELECT {cells} FROM {self.table} WHERE {self.where} ORDER BY {self.order or 'rowid'}",
            self.values,
        )
        while batch := cursor.fetchmany(at_once):
            yield batch


Form = Callable[[sqlite3.Connection, Sheet], Iterator[bytes]]


class Chunked(Iterator[bytes]):
    """A file in chunks, that gives back what it holds open after the last of them and after an error."""

    _chunks: Iterator[bytes]
    _held: ExitStack

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give it back before. Safe to call twice."""
        # First what reads: a statement that is not at its end holds its view whatever is rolled back.
        self._chunks = iter(())
        self._held.close()


STALLED_SECONDS = 600.0
"""A reader who takes nothing for so long loses the view: as long as it is held the write-ahead log grows."""


class ReaderStalled(SwitchroomError):
    """The rest of the file is not to be had any more."""


class Stream(Chunked):
    """Written from one view of the mirror: what is counted before the first chunk is what the file holds,
    whatever changes meanwhile. The view is given back to the mirror where nobody takes the chunks.

    Raises QueryError when made.
    """

    def __init__(self, read: Reader, selection: Selection, form: Form) -> None:
        self._held = ExitStack()
        try:
            connection = self._held.enter_context(read())
            self.sheet = sheet_of(connection, selection)
            self.rows, first = self.sheet.extent(connection)
            self.sheet = replace(self.sheet, first=first)
            self.name = selection.name
            self._chunks = form(connection, self.sheet)
        except BaseException:
            self._held.close()
            raise
        self._taking = threading.Lock()
        self._taken_at = clock.monotonic()
        self._stalled = False
        with _guard:
            _under_way.add(self)

    def __next__(self) -> bytes:
        with self._taking:
            if self._stalled:
                raise ReaderStalled(f"nobody took any of {self.name} for {STALLED_SECONDS:.0f} s")
            try:
                return super().__next__()
            finally:
                self._taken_at = clock.monotonic()

    def begin(self) -> None:
        """Do what comes before the first chunk, so that its errors come before a response's status."""
        first = next(self, b"")
        self._chunks = chain((first,), self._chunks)

    def give_back_if_stalled(self) -> None:
        # Else it is at work.
        if self._taking.acquire(blocking=False):
            try:
                if clock.monotonic() - self._taken_at >= STALLED_SECONDS:
                    self._stalled = True
                    self.close()
            finally:
                self._taking.release()


_under_way: WeakSet[Stream] = WeakSet()
_guard = threading.Lock()


def give_back_stalled() -> None:
    """Look after every file that is under way in this process."""
    with _guard:
        streams = list(_under_way)
    for stream in streams:
        stream.give_back_if_stalled()


def count(connection: sqlite3.Connection, selection: Selection) -> int:
    """How many rows the file would have. Raises QueryError."""
    return sheet_of(connection, selection).extent(connection)[0]


def sheet_of(connection: sqlite3.Connection, selection: Selection) -> Sheet:
    """The SQL of an export. Raises QueryError for what no record has."""
    register(connection)
    question, resource, preset = selection.question, selection.resource, selection.preset
    own = preset is not None and preset.own_table
    binder = question.binder(connection)
    where = question.where(binder)
    extras = extras_of(connection, resource, preset)
    columns = tuple(
        _column(binder, selection, extras, name) for name in selection.columns or _found(connection, resource)
    )
    order = None
    if question.sort is not None:
        direction = "DESC" if question.descending else "ASC"
        order = f"{binder.expression(question.sort, 'sort')} {direction}, rowid"
    elif preset is not None and preset.newest_first:
        order = f'"{resource.date}" DESC, rowid DESC'
    values = {**binder.values, **selection.context}
    for column in columns:
        values |= column.values
    for number, asked in enumerate(selection.calls):
        conditions, bound = history.matching(connection, asked, f"calls{number}_")
        among = " AND ".join(conditions) or "1"
        if not own:
            among = (
                "live_id IN (SELECT leg.leg_id FROM _calls AS c JOIN _legs AS leg ON leg.call_id = c.id"
                f" WHERE {among})"
            )
        where = f"{where} AND {among}"
        values |= bound
    return Sheet(
        name=preset.name if preset else resource.table,
        columns=columns,
        table=f'"{resource.table}"' + (" AS c" if own else ""),
        where=where,
        order=order,
        # GLOB looks for the backslash first: a third of what instr() costs.
        suspicious=_suspicious(preset) if preset is not None and own else f"_doc GLOB '*{_NUL}*'",
        zone=selection.zone,
        local=selection.local,
        document="_doc" if selection.whole else None,
        values=values,
    )


def _suspicious(preset: Preset) -> str:
    names = [field.name for field in preset.resource.fields if field.type == "string"]
    return f"instr({' || '.join(f'''coalesce({name}, '')''' for name in names)}, char(0))"


def extras_of(
    connection: sqlite3.Connection, resource: Resource, preset: Preset | None
) -> Mapping[str, Extra]:
    """The columns that may be asked for beside the record's own fields, by name."""
    if preset is not None and preset.own_table:
        return {extra.name: extra for extra in preset.extras}
    return made(resource, dictionaries.labels(connection, resource))


def offered(connection: sqlite3.Connection, resource: Resource, preset: Preset | None) -> list[str]:
    """Every column that may be asked for, secrets apart: documented fields, then others that records have,
    then what is made of them, then our bookkeeping."""
    own = preset is not None and preset.own_table
    fields = [field for field in resource.fields if not field.item_only and not is_secret(field.name)]
    names = [field.name for field in sorted(fields, key=lambda field: not field.documented)]
    strange = () if own else browse.sample(connection, resource).strange
    made_of_them = extras_of(connection, resource, preset)
    return list(dict.fromkeys([*names, *strange, *made_of_them, *(() if own else BOOKKEEPING)]))


def _found(connection: sqlite3.Connection, resource: Resource) -> tuple[str, ...]:
    """Columns of a collection whose fields nobody documented: those that its records have."""
    return browse.sample(connection, resource).strange[:MOST_COLUMNS] or BOOKKEEPING[:2]


def _column(binder: Binder, selection: Selection, extras: Mapping[str, Extra], name: str) -> Column:
    resource = selection.resource
    field = resource.field(name)
    if field is None and (extra := extras.get(name)) is not None:
        return Column(name, extra.sql, extra.kind, clean=extra.kind == "text", values=extra.values)
    if name in BOOKKEEPING:
        return Column(name, name, "text")
    if field is not None and is_secret(name):
        # That a PIN is set may be known, so the column stands there; by a filter its value could be guessed.
        return Column(name, f'"{name}"', "secret")
    sql = binder.expression(name, "columns")
    if is_secret(name):
        return Column(name, sql, "secret")
    if field is not None and is_moment(resource, field):
        # A preset has a column of its own for the local time.
        return Column(name, sql, "time" if selection.preset is None else "utc")
    nested = field is not None and field.real_type in ("array", "object")
    if sql.startswith("json_extract("):
        # It ends a text at its NUL and writes half a surrogate pair as broken UTF-8; reading does neither.
        sql = f"CASE WHEN {_ESCAPED} THEN {sql.replace('json_extract', 'field_of', 1)} ELSE {sql} END"
    if nested or field is None:
        # What lies deeper may be a PIN as well.
        sql = f"CASE WHEN {sql} GLOB '[[{{]*' THEN without_secrets({sql}) ELSE {sql} END"
    return Column(name, sql, "json" if nested else kind_of(field, resource))


def _masked(column: Column) -> str:
    if column.kind == "secret":
        return f"CASE WHEN {column.sql} IS NOT NULL THEN '{MASK}' END"
    return column.sql
