"""CSV, composed inside SQLite.

Each line is one `printf`, so that no cell passes through Python. With several threads SQLite composes several
chunks at the same time: on two free processors a million CDRs take 80 % of the time, for 40 % more CPU time.

RFC 4180, CRLF, UTF-8. Text is always quoted, numbers never. With the separator `;` numbers have a decimal
comma, as Excel expects in most languages of Europe. Cells that a spreadsheet would run as a formula
get the prefix `'` (promise S17).
"""

from __future__ import annotations

import queue
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from integration.exports.formats.format import Format
from integration.exports.query import MASK, Column, ExportQuery, ExportStream
from integration.exports.selection import OpenReader, Selection

CHUNK_ROWS = 2000
"""Records of one chunk, the largest number held in memory."""

FORMULA_STARTS = ("=", "@", "-", "\t", "\n", "\r", "\uff1d", "\uff20", "\uff0d", "\uff0b")
"""First characters of a formula, besides the plus sign.

The last four are the full-width forms of `=`, `@`, `-` and `+`, which East Asian spreadsheets run as well.
"""

_IGNORED_RANGES = (
    "1-8 B-C E-20 7F-A0 AD 300-36F 61C 115F-1160 1680 17B4-17B5 180B-180F 1AB0-1AFF 1DC0-1DFF"
    " 2000-200F 2028-202F 205F-206F 20D0-20FF 2800 3000 3164 FE00-FE0F FE20-FE2F FEFF FFA0"
    " FFF9-FFFC 1D173-1D17A E0000-E007F"
)
IGNORED_SIGNS = "".join(
    chr(code)
    for first, _, last in (signs.partition("-") for signs in _IGNORED_RANGES.split())
    for code in range(int(first, 16), int(last or first, 16) + 1)
)
"""Blanks, control characters, invisible signs and combining marks that a program may remove before a formula.

docs/exports.md lists them.
"""


def stream(
    read: OpenReader,
    selection: Selection,
    *,
    bom: bool = False,
    separator: str = ",",
    chunk_rows: int = CHUNK_ROWS,
    threads: int = 0,
) -> ExportStream:
    """Return the file in chunks, computed in constant memory.

    The first chunk is the header, each further chunk has at most `chunk_rows` records. `threads` compute
    chunks at the same time; 0: the thread that reads them does. Raises QueryError before the first chunk.
    """
    writer = partial(chunks, bom=bom, separator=separator, chunk_rows=chunk_rows)
    return ExportStream(read, selection, writer, threads=threads)


def chunks(
    connection: sqlite3.Connection,
    export_query: ExportQuery,
    *helpers: sqlite3.Connection,
    bom: bool = False,
    separator: str = ",",
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[bytes]:
    """Yield the file of `export_query` from the snapshot of `connection`.

    `helpers`: connections with the same snapshot, for a thread each.
    """
    # Names of undocumented fields come from the platform, so they are quoted and guarded like cells.
    header = separator.join(quote_cell(column.heading) for column in export_query.columns) + "\r\n"
    yield ("\ufeff" if bom else "").encode() + header.encode()
    values = {
        **export_query.values,
        "zone": export_query.zone.key if export_query.zone else None,
        "local": export_query.local_zone.key,
        "ignored": IGNORED_SIGNS,
    }
    fast_line, careful_line = (
        _build_line_sql(export_query, separator, strip_nul=strip_nul) for strip_nul in (False, True)
    )
    # printf stops at a NUL, so records that may contain one use the slower expression.
    line = f"CASE WHEN {export_query.nul_condition} THEN {careful_line} ELSE {fast_line} END"
    table, where = export_query.table, export_query.where
    if export_query.order is not None:
        # Another order has no key to resume from: read one statement in steps.
        cursor = connection.cursor()
        cursor.row_factory = None
        sql = f"SELECT CAST({line} AS BLOB) FROM {table} WHERE {where} ORDER BY {export_query.order}"
        cursor.execute(sql, values)
        while rows := cursor.fetchmany(chunk_rows):
            yield b"".join(row[0] for row in rows)
        return
    if export_query.first_rowid is None:
        return
    # One statement per chunk: rows do not pass through Python, and other threads run in the meantime.
    # NOT INDEXED: all chunks together scan the table once in the order of rowid, instead of one sort per
    # chunk. The first rowid comes from an index.
    lines = f"SELECT rowid AS key, {line} AS line FROM {table} NOT INDEXED WHERE {where} AND rowid >= :after"
    if helpers:
        sql = f"SELECT CAST(group_concat(line, '') AS BLOB) FROM ({lines} AND rowid <= :last ORDER BY rowid)"
        ranges = _divide(connection, export_query, chunk_rows)
        yield from _compute_ahead(helpers, sql, ({**values, "after": a, "last": b} for a, b in ranges))
        return
    sql = f"SELECT CAST(group_concat(line, '') AS BLOB), max(key) FROM ({lines} ORDER BY rowid LIMIT :lines)"
    next_key = export_query.first_rowid
    while next_key is not None:
        text, last_key = connection.execute(
            sql, {**values, "after": next_key, "lines": chunk_rows}
        ).fetchone()
        if last_key is None:
            return
        yield text
        next_key = last_key + 1


def _divide(
    connection: sqlite3.Connection, export_query: ExportQuery, chunk_rows: int
) -> Iterator[tuple[int, int]]:
    """Yield the first and last rowid of each `chunk_rows` rows."""
    table = export_query.table
    sql = (
        f"SELECT max(key) FROM (SELECT rowid AS key FROM {table} NOT INDEXED WHERE rowid >= ?"
        " ORDER BY rowid LIMIT ?)"
    )
    first = export_query.first_rowid
    while first is not None:
        last = connection.execute(sql, (first, chunk_rows)).fetchone()[0]
        if last is None:
            return
        yield first, last
        first = last + 1


def _compute_ahead(
    connections: Sequence[sqlite3.Connection], sql: str, parameters: Iterator[dict[str, Any]]
) -> Iterator[bytes]:
    """Yield the results of `sql` for `parameters`, in order.

    Each connection has a thread.
    """
    idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
    for connection in connections:
        idle.put(connection)

    def compute(values: dict[str, Any]) -> bytes | None:
        connection = idle.get()
        try:
            text: bytes | None = connection.execute(sql, values).fetchone()[0]
        finally:
            idle.put(connection)
        return text

    pending: deque[Future[bytes | None]] = deque()
    # A caller that stops early closes this generator, which waits for the statements that run.
    with ThreadPoolExecutor(len(connections), "export") as pool:
        for values in parameters:
            pending.append(pool.submit(compute, values))
            if len(pending) > 2 * len(connections):
                yield pending.popleft().result() or b""
        while pending:
            yield pending.popleft().result() or b""


def _build_line_sql(export_query: ExportQuery, separator: str, *, strip_nul: bool) -> str:
    cells = [
        _build_cell_sql(
            column,
            export_query,
            has_decimal_comma=separator == ";",
            strip_nul=strip_nul or column.strip_nul,
        )
        for column in export_query.columns
    ]
    # The template contains only conversions, no names or values from outside.
    template = separator.join(conversion for conversion, _ in cells) + "\r\n"
    return f"printf('{template}', {', '.join(cell for _, cell in cells)})"


def _build_cell_sql(
    column: Column,
    export_query: ExportQuery,
    *,
    has_decimal_comma: bool,
    strip_nul: bool,
) -> tuple[str, str]:
    """Return printf conversion and SQL expression of a column's cells."""
    value = f"without_nul({column.sql})" if strip_nul else column.sql
    if column.kind == "secret":
        return '"%w"', f"CASE WHEN {value} IS NULL THEN '' ELSE '{MASK}' END"
    if column.kind == "local" or (column.kind == "time" and export_query.zone is not None):
        time_sql = f"with_offset({value}, :local)" if column.kind == "local" else f"in_zone({value}, :zone)"
        text_sql = _guard_formula(value)
        return '"%w"', f"CASE WHEN {value} GLOB '[0-9]*' THEN {time_sql} ELSE {text_sql} END"
    if column.kind in ("text", "json", "time", "utc"):
        return '"%w"', _guard_formula(value)
    # Numbers are not quoted; text in a number column (schema drift) is. NULL becomes an empty cell.
    text_sql = f"printf('\"%w\"', {_guard_formula(value)})"
    number_sql = value
    if has_decimal_comma:
        number_sql = f"CASE typeof({value}) WHEN 'real' THEN replace({value}, '.', ',') ELSE {value} END"
    if column.kind == "duration":
        duration_sql = f"printf('%d:%02d:%02d', {value} / 3600, {value} / 60 % 60, {value} % 60)"
        is_duration = f"typeof({value}) = 'integer' AND {value} >= 0"
        return (
            "%s",
            f"CASE WHEN {is_duration} THEN {duration_sql} WHEN {value} >= '' THEN {text_sql}"
            f" ELSE {number_sql} END",
        )
    return "%s", f"CASE WHEN {value} >= '' THEN {text_sql} ELSE {number_sql} END"


def _guard_formula(cell: str) -> str:
    """Return SQL that adds the prefix `'` to formulas.

    A formula is a cell that a spreadsheet would run, also after IGNORED_SIGNS. Each comparison costs as much
    as reading the cell, and `ltrim` 2 µs. Nearly every cell is empty or begins with an ASCII letter or a
    digit, so these comparisons come first. No range that is compared has a formula's first character or an
    ignored sign.
    """
    is_letter, is_digit = f"({cell} BETWEEN 'A' AND '~')", f"({cell} < '=' AND {cell} >= '.')"
    is_other_text = " OR ".join(
        f"({cell} < '{end}' AND {cell} >= '{first}')"
        for first, end in (("!", "+"), ("\xae", "\u0300"), ("\u0370", "\u061c"), ("\u3165", "\ufe00"))
    )
    may_be_ignored = f"({cell} > '' AND {cell} < '!' OR {cell} > '~')"
    return (
        f"CASE WHEN {is_letter} THEN {cell} WHEN {cell} IS NULL THEN '' WHEN {is_digit}"
        f" OR {is_other_text} THEN {cell} WHEN {_build_formula_test(cell)} OR {may_be_ignored}"
        f" AND ({_build_formula_test(f'ltrim({cell}, :ignored)')}) THEN '''' || {cell} ELSE {cell} END"
    )


def _build_formula_test(text: str) -> str:
    """Return SQL of whether a text begins as a formula. A phone number with a plus sign is not a formula."""
    first_character = f"substr({text}, 1, 1)"
    starts = ", ".join(f"char({ord(start)})" for start in FORMULA_STARTS)
    is_phone_number = f"length({text}) BETWEEN 7 AND 16 AND substr({text}, 2) NOT GLOB '*[^0-9]*'"
    return f"{first_character} IN ({starts}) OR {first_character} = '+' AND NOT ({is_phone_number})"


def quote_cell(text: str) -> str:
    """Quote and guard a text cell as the SQL expressions do."""
    visible = text.lstrip(IGNORED_SIGNS)
    number = visible[1:]
    is_phone_number = 6 <= len(number) <= 15 and number.isascii() and number.isdigit()
    if visible.startswith(FORMULA_STARTS) or (visible.startswith("+") and not is_phone_number):
        text = "'" + text
    return '"' + text.replace("\x00", "\ufffd").replace('"', '""') + '"'


FORMAT = Format(
    suffix="csv",
    mime="text/csv; charset=utf-8",
    label="CSV",
    hint="Comma-separated values, for other programs",
    stream=lambda read, selection, options: stream(
        read, selection, bom=options.bom, separator=options.separator, threads=options.threads
    ),
    order=20,
)
