"""CSV composed inside SQLite: a line is one `printf`, so that no cell passes through Python.

RFC 4180, CRLF, UTF-8. Text is always quoted, numbers never. Cells that a spreadsheet would run as a formula
get one `'` before them (promise S17).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial

from integration.exports.formats.format import Format
from integration.exports.query import MASK, Column, ExportQuery, ExportStream
from integration.exports.selection import OpenReader, Selection

CHUNK_ROWS = 2000
"""Records of one chunk; what is held in memory."""


def stream(
    read: OpenReader, selection: Selection, *, bom: bool = False, chunk_rows: int = CHUNK_ROWS
) -> ExportStream:
    """The file in chunks: the header first, then `chunk_rows` records each. Memory does not grow with the
    file.

    Raises QueryError before the first chunk.
    """
    return ExportStream(read, selection, partial(chunks, bom=bom, chunk_rows=chunk_rows))


def chunks(
    connection: sqlite3.Connection,
    export_query: ExportQuery,
    *,
    bom: bool = False,
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[bytes]:
    """The file of `export_query`, all of it from `connection`'s one view."""
    # Fields that nobody documented are called what the platform sends.
    header = ",".join(quote_cell(column.name) for column in export_query.columns) + "\r\n"
    yield ("\ufeff" if bom else "").encode() + header.encode()
    # Values beside the sheet's own: the zones for times.
    values = {
        **export_query.values,
        "zone": export_query.zone.key if export_query.zone else None,
        "local": export_query.local_zone.key,
    }
    digit_columns = _find_digit_columns(connection, export_query)
    fast_line, careful_line = (
        _build_line_sql(export_query, digit_columns, strip_nul=strip_nul) for strip_nul in (False, True)
    )
    # printf stops at a NUL, so records that hold one take the long way.
    line = f"CASE WHEN {export_query.nul_condition} THEN {careful_line} ELSE {fast_line} END"
    source = f"{export_query.table} {{}} WHERE {export_query.where}"
    if export_query.order is not None:
        # In another order there is no key to go on from: one statement, read bit by bit.
        cursor = connection.cursor()
        cursor.row_factory = None
        sql = f"SELECT CAST({line} AS BLOB) FROM {source.format('')} ORDER BY {export_query.order}"
        cursor.execute(sql, values)
        while rows := cursor.fetchmany(chunk_rows):
            yield b"".join(row[0] for row in rows)
        return
    # One step for a whole chunk: rows don't pass through Python, and other threads run meanwhile.
    # NOT INDEXED: one pass over the table in the order of its rowid for all chunks together, instead of a
    # sort for each. Where it begins is asked of the indexes.
    sql = (
        "SELECT CAST(group_concat(line, '') AS BLOB), max(key) FROM (SELECT rowid AS key, "
        f"{line} AS line FROM {source.format('NOT INDEXED')} AND rowid >= :after ORDER BY rowid LIMIT :lines)"
    )
    next_key = export_query.first_rowid
    while next_key is not None:
        text, last_key = connection.execute(
            sql, {**values, "after": next_key, "lines": chunk_rows}
        ).fetchone()
        if last_key is None:
            return
        yield text
        next_key = last_key + 1


def _find_digit_columns(connection: sqlite3.Connection, export_query: ExportQuery) -> frozenset[str]:
    """The columns whose cells begin with a figure, as far as the first row tells."""
    cells = ", ".join(column.sql for column in export_query.columns)
    sql = f"SELECT {cells} FROM {export_query.table} WHERE rowid = :first"
    row = connection.execute(sql, {**export_query.values, "first": export_query.first_rowid}).fetchone() or ()
    return frozenset(
        column.name
        for column, cell in zip(export_query.columns, row, strict=False)
        if isinstance(cell, str) and "0" <= cell[:1] <= "9"
    )


def _build_line_sql(export_query: ExportQuery, digit_columns: frozenset[str], *, strip_nul: bool) -> str:
    cells = [
        _build_cell_sql(
            column,
            export_query,
            strip_nul=strip_nul or column.strip_nul,
            starts_with_digit=column.name in digit_columns,
        )
        for column in export_query.columns
    ]
    # Only conversions stand in the template: nothing that anybody chose.
    template = ",".join(conversion for conversion, _ in cells) + "\r\n"
    return f"printf('{template}', {', '.join(cell for _, cell in cells)})"


def _build_cell_sql(
    column: Column, export_query: ExportQuery, *, strip_nul: bool, starts_with_digit: bool
) -> tuple[str, str]:
    """The conversion and the expression for one column's cells."""
    value = f"without_nul({column.sql})" if strip_nul else column.sql
    if column.kind == "secret":
        return '"%w"', f"CASE WHEN {value} IS NULL THEN '' ELSE '{MASK}' END"
    if column.kind == "local" or (column.kind == "time" and export_query.zone is not None):
        time_sql = f"with_offset({value}, :local)" if column.kind == "local" else f"in_zone({value}, :zone)"
        text_sql = _guard_formula(value, starts_with_digit)
        return '"%w"', f"CASE WHEN {value} GLOB '[0-9]*' THEN {time_sql} ELSE {text_sql} END"
    if column.kind in ("text", "json", "time", "utc"):
        return '"%w"', _guard_formula(value, starts_with_digit)
    # A number stands bare; text that drifted in is quoted like other text. NULL prints as nothing.
    text_sql = f"printf('\"%w\"', {_guard_formula(value, starts_with_digit)})"
    if column.kind == "duration":
        duration_sql = f"printf('%d:%02d:%02d', {value} / 3600, {value} / 60 % 60, {value} % 60)"
        is_duration = f"typeof({value}) = 'integer' AND {value} >= 0"
        return (
            "%s",
            f"CASE WHEN {is_duration} THEN {duration_sql} WHEN {value} >= '' THEN {text_sql}"
            f" ELSE {value} END",
        )
    return "%s", f"CASE WHEN {value} >= '' THEN {text_sql} ELSE {value} END"


def _guard_formula(cell: str, starts_with_digit: bool) -> str:
    """`'` before what a spreadsheet takes for a formula; a phone number with its plus is none.

    Nearly every cell is empty, begins with a letter, or with a figure, and is settled by the comparisons that
    come first, those that most cells of the column need before the others: each costs what reading the cell
    costs. Tab and CR stand before the 14th character, + , and - between * and the full stop, = and @ between
    the figures and the letters.
    """
    is_letter, is_digit = f"{cell} >= 'A'", f"({cell} < '=' AND {cell} >= '.')"
    likely_test, other_test = (is_digit, is_letter) if starts_with_digit else (is_letter, is_digit)
    is_sign = f"({cell} < '+' AND {cell} > char(14))"
    is_phone_number = f"length({cell}) BETWEEN 7 AND 16 AND substr({cell}, 2) NOT GLOB '*[^0-9]*'"
    first_character = f"substr({cell}, 1, 1)"
    is_formula = (
        f"{first_character} IN ('=', '@', '-', char(9), char(13)) OR {first_character} = '+'"
        f" AND NOT ({is_phone_number})"
    )
    return (
        f"CASE WHEN {likely_test} THEN {cell} WHEN {cell} IS NULL THEN '' WHEN {other_test} OR {is_sign}"
        f" THEN {cell}"
        f" WHEN {is_formula} THEN '''' || {cell} ELSE {cell} END"
    )


def quote_cell(text: str) -> str:
    """A cell of text, as the file's own cells are written."""
    number = text[1:]
    is_phone_number = 6 <= len(number) <= 15 and number.isascii() and number.isdigit()
    if text.startswith(("=", "@", "-", "\t", "\r")) or (text.startswith("+") and not is_phone_number):
        text = "'" + text
    return '"' + text.replace("\x00", "\ufffd").replace('"', '""') + '"'


FORMAT = Format(
    suffix="csv",
    mime="text/csv; charset=utf-8",
    label="CSV",
    hint="Comma-separated values, for other programs",
    stream=lambda read, selection, options: stream(read, selection, bom=options.bom),
    order=20,
)
