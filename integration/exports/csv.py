"""CSV composed inside SQLite: a line is one `printf`, so that no cell passes through Python (design.md §4).

RFC 4180, CRLF, UTF-8. Text is always quoted, numbers never. Cells that a spreadsheet would run as a formula
get one `'` before them (promise S17).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from integration.exports.selection import BOOKKEEPING, Reader, Selection
from integration.mirror.filters import Binder, kind_of
from integration.mirror.masking import is_secret

LINES = 2000
"""Records of one chunk; what is held in memory."""

MASK = "***"
_NUL = "\\u0000"
"""How a NUL stands in the JSON text of a record."""


def stream(read: Reader, selection: Selection, *, bom: bool = False, lines: int = LINES) -> Iterator[bytes]:
    """The file in chunks: the header first, then `lines` records each. Memory does not grow with the file.

    Chunks follow each other by key, each read by itself, so that a slow reader holds no snapshot; records
    that come meanwhile with a higher key are part of it. Raises QueryError before the first chunk.
    """
    with read() as connection:
        plan = _Plan(connection, selection)
    return _chunks(read, plan, bom, lines)


def _chunks(read: Reader, plan: _Plan, bom: bool, lines: int) -> Iterator[bytes]:
    yield ("\ufeff" if bom else "").encode() + plan.header
    if plan.selection.question.sort is not None:
        yield from _sorted(read, plan, lines)
        return
    after = plan.first
    while after is not None:
        with read() as connection:
            _register(connection)
            rows = connection.execute(
                plan.chunk_sql, {**plan.values, "after": after, "lines": lines}
            ).fetchall()
        if rows:
            yield b"".join(row[1] for row in rows)
        after = rows[-1][0] + 1 if len(rows) == lines else None


def _sorted(read: Reader, plan: _Plan, lines: int) -> Iterator[bytes]:
    """In another order there is no key to go on from: one statement, read bit by bit."""
    with read() as connection:
        _register(connection)
        cursor = connection.execute(plan.sorted_sql, plan.values)
        while rows := cursor.fetchmany(lines):
            yield b"".join(row[0] for row in rows)


class _Plan:
    """The SQL of one export."""

    def __init__(self, connection: sqlite3.Connection, selection: Selection) -> None:
        _register(connection)
        self.selection = selection
        question, resource = selection.question, selection.resource
        binder = question.binder(connection)
        where = question.where(binder)
        lines = []
        # printf stops at a NUL, so records that hold one take the long way.
        for clean in (False, True):
            cells = [_cell(binder, selection, name, clean=clean) for name in selection.columns]
            template = ",".join(form for form, _ in cells) + "\r\n"
            lines.append(f"printf({binder.bind(template)}, {', '.join(cell for _, cell in cells)})")
        line = f"CAST(CASE WHEN instr(_doc, '{_NUL}') THEN {lines[1]} ELSE {lines[0]} END AS BLOB)"
        table = f'"{resource.table}"'
        # NOT INDEXED: one pass over the table in the order of its rowid for all chunks together, instead of
        # a sort for each. Where it begins is asked of the indexes.
        self.chunk_sql = (
            f"SELECT rowid, {line} FROM {table} NOT INDEXED WHERE rowid >= :after AND {where}"
            " ORDER BY rowid LIMIT :lines"
        )
        self.sorted_sql = ""
        if question.sort is not None:
            direction = "DESC" if question.descending else "ASC"
            order = f"{binder.expression(question.sort, 'sort')} {direction}, rowid"
            self.sorted_sql = f"SELECT {line} FROM {table} WHERE {where} ORDER BY {order}"
        self.values = binder.values
        self.header = (",".join(_quoted(name) for name in selection.columns) + "\r\n").encode()
        first = connection.execute(f"SELECT min(+rowid) FROM {table} WHERE {where}", binder.values).fetchone()
        self.first: int | None = first[0]


def _cell(binder: Binder, selection: Selection, name: str, *, clean: bool) -> tuple[str, str]:
    """The conversion and the expression for one column's cells."""
    if name in BOOKKEEPING:
        return '"%w"', f"coalesce({name}, '')"
    column = binder.expression(name, "columns")
    if clean:
        column = f"without_nul({column})"
    if is_secret(name):
        return '"%w"', f"CASE WHEN {column} IS NULL THEN '' ELSE '{MASK}' END"
    field = selection.resource.field(name)
    kind = kind_of(field, selection.resource)
    if kind == "time" or (name.endswith("_at") and kind == "text"):
        if selection.zone is not None:
            moment = f"in_zone({column}, {binder.bind(selection.zone.key)})"
            return '"%w"', f"CASE WHEN {column} GLOB '[0-9]*' THEN {moment} ELSE {_guarded(column)} END"
        return '"%w"', _guarded(column)
    if kind == "text":
        return '"%w"', _guarded(column)
    # A number stands bare; text that drifted in is quoted like other text. NULL prints as nothing.
    text = f"printf('\"%w\"', {_guarded(column)})"
    return "%s", f"CASE WHEN {column} >= '' THEN {text} ELSE {column} END"


def _guarded(column: str) -> str:
    """`'` before what a spreadsheet takes for a formula; a phone number with its plus is none.

    Two comparisons settle nearly every cell: tab, CR, + and - stand before the full stop, = and @ alone.
    """
    number = f"length({column}) BETWEEN 7 AND 16 AND substr({column}, 2) NOT GLOB '*[^0-9]*'"
    first = f"substr({column}, 1, 1)"
    near = (
        f"({column} < '.' OR ({column} >= '=' AND ({column} < '>' OR ({column} >= '@' AND {column} < 'A'))))"
    )
    return (
        f"CASE WHEN {near} AND ({first} IN ('=', '@', '-', char(9), char(13))"
        f" OR ({first} = '+' AND NOT ({number}))) THEN '''' || {column} ELSE coalesce({column}, '') END"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _register(connection: sqlite3.Connection) -> None:
    connection.create_function("without_nul", 1, _without_nul, deterministic=True)
    connection.create_function("in_zone", 2, _in_zone, deterministic=True)


def _without_nul(value: Any) -> Any:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value


@lru_cache(maxsize=8)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _in_zone(value: Any, zone: str) -> Any:
    """A UTC time as the same moment in `zone`; what is no time stays as it is."""
    if not isinstance(value, str) or len(value) != 19 or value[10] != " ":
        return value
    try:
        moment = datetime.fromisoformat(value)  # strptime takes ten times as long
    except ValueError:
        return value
    return moment.replace(tzinfo=UTC).astimezone(_zone(zone)).replace(tzinfo=None).isoformat(" ")
