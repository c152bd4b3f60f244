"""CSV composed inside SQLite: a line is one `printf`, so that no cell passes through Python (design.md §4).

RFC 4180, CRLF, UTF-8. Text is always quoted, numbers never. Cells that a spreadsheet would run as a formula
get one `'` before them (promise S17).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial

from integration.exports.query import MASK, Column, Sheet, Stream
from integration.exports.selection import Reader, Selection

LINES = 2000
"""Records of one chunk; what is held in memory."""


def stream(read: Reader, selection: Selection, *, bom: bool = False, lines: int = LINES) -> Stream:
    """The file in chunks: the header first, then `lines` records each. Memory does not grow with the file.

    Raises QueryError before the first chunk.
    """
    return Stream(read, selection, partial(chunks, bom=bom, lines=lines))


def chunks(
    connection: sqlite3.Connection, sheet: Sheet, *, bom: bool = False, lines: int = LINES
) -> Iterator[bytes]:
    """The file of `sheet`, all of it from `connection`'s one view."""
    # Fields that nobody documented are called what the platform sends.
    header = ",".join(quoted(column.name) for column in sheet.columns) + "\r\n"
    yield ("\ufeff" if bom else "").encode() + header.encode()
    # Values beside the sheet's own: the zones for times.
    values = {**sheet.values, "zone": sheet.zone.key if sheet.zone else None, "local": sheet.local.key}
    figures = _figures(connection, sheet)
    fast, careful = (_line(sheet, figures, clean=clean) for clean in (False, True))
    # printf stops at a NUL, so records that hold one take the long way.
    line = f"CASE WHEN {sheet.suspicious} THEN {careful} ELSE {fast} END"
    source = f"{sheet.table} {{}} WHERE {sheet.where}"
    if sheet.order is not None:
        # In another order there is no key to go on from: one statement, read bit by bit.
        cursor = connection.cursor()
        cursor.row_factory = None
        sql = f"SELECT CAST({line} AS BLOB) FROM {source.format('')} ORDER BY {sheet.order}"
        cursor.execute(sql, values)
        while rows := cursor.fetchmany(lines):
            yield b"".join(row[0] for row in rows)
        return
    # One step for a whole chunk: rows don't pass through Python, and other threads run meanwhile.
    # NOT INDEXED: one pass over the table in the order of its rowid for all chunks together, instead of a
    # sort for each. Where it begins is asked of the indexes.
    sql = (
        "SELECT CAST(group_concat(line, '') AS BLOB), max(key) FROM (SELECT rowid AS key, "
        f"{line} AS line FROM {source.format('NOT INDEXED')} AND rowid >= :after ORDER BY rowid LIMIT :lines)"
    )
    after = sheet.first
    while after is not None:
        text, last = connection.execute(sql, {**values, "after": after, "lines": lines}).fetchone()
        if last is None:
            return
        yield text
        after = last + 1


def _figures(connection: sqlite3.Connection, sheet: Sheet) -> frozenset[str]:
    """The columns whose cells begin with a figure, as far as the first row tells."""
    cells = ", ".join(column.sql for column in sheet.columns)
    sql = f"SELECT {cells} FROM {sheet.table} WHERE rowid = :first"
    row = connection.execute(sql, {**sheet.values, "first": sheet.first}).fetchone() or ()
    return frozenset(
        column.name
        for column, cell in zip(sheet.columns, row, strict=False)
        if isinstance(cell, str) and "0" <= cell[:1] <= "9"
    )


def _line(sheet: Sheet, figures: frozenset[str], *, clean: bool) -> str:
    cells = [
        _cell(column, sheet, clean=clean or column.clean, figures=column.name in figures)
        for column in sheet.columns
    ]
    # Only conversions stand in the template: nothing that anybody chose.
    template = ",".join(form for form, _ in cells) + "\r\n"
    return f"printf('{template}', {', '.join(cell for _, cell in cells)})"


def _cell(column: Column, sheet: Sheet, *, clean: bool, figures: bool) -> tuple[str, str]:
    """The conversion and the expression for one column's cells."""
    value = f"without_nul({column.sql})" if clean else column.sql
    if column.kind == "secret":
        return '"%w"', f"CASE WHEN {value} IS NULL THEN '' ELSE '{MASK}' END"
    if column.kind == "local" or (column.kind == "time" and sheet.zone is not None):
        moment = f"with_offset({value}, :local)" if column.kind == "local" else f"in_zone({value}, :zone)"
        text = _guarded(value, figures)
        return '"%w"', f"CASE WHEN {value} GLOB '[0-9]*' THEN {moment} ELSE {text} END"
    if column.kind in ("text", "json", "time", "utc"):
        return '"%w"', _guarded(value, figures)
    # A number stands bare; text that drifted in is quoted like other text. NULL prints as nothing.
    text = f"printf('\"%w\"', {_guarded(value, figures)})"
    if column.kind == "duration":
        clock = f"printf('%d:%02d:%02d', {value} / 3600, {value} / 60 % 60, {value} % 60)"
        whole = f"typeof({value}) = 'integer' AND {value} >= 0"
        return "%s", f"CASE WHEN {whole} THEN {clock} WHEN {value} >= '' THEN {text} ELSE {value} END"
    return "%s", f"CASE WHEN {value} >= '' THEN {text} ELSE {value} END"


def _guarded(column: str, figures: bool) -> str:
    """`'` before what a spreadsheet takes for a formula; a phone number with its plus is none.

    Nearly every cell is empty, begins with a letter, or with a figure, and is settled by the comparisons that
    come first, those that most cells of the column need before the others: each costs what reading the cell
    costs. Tab and CR stand before the 14th character, + , and - between * and the full stop, = and @ between
    the figures and the letters.
    """
    letter, figure = f"{column} >= 'A'", f"({column} < '=' AND {column} >= '.')"
    usual, other = (figure, letter) if figures else (letter, figure)
    sign = f"({column} < '+' AND {column} > char(14))"
    number = f"length({column}) BETWEEN 7 AND 16 AND substr({column}, 2) NOT GLOB '*[^0-9]*'"
    first = f"substr({column}, 1, 1)"
    formula = f"{first} IN ('=', '@', '-', char(9), char(13)) OR {first} = '+' AND NOT ({number})"
    return (
        f"CASE WHEN {usual} THEN {column} WHEN {column} IS NULL THEN '' WHEN {other} OR {sign} THEN {column}"
        f" WHEN {formula} THEN '''' || {column} ELSE {column} END"
    )


def quoted(text: str) -> str:
    """A cell of text, as the file's own cells are written."""
    number = text[1:]
    phone = 6 <= len(number) <= 15 and number.isascii() and number.isdigit()
    if text.startswith(("=", "@", "-", "\t", "\r")) or (text.startswith("+") and not phone):
        text = "'" + text
    return '"' + text.replace("\x00", "\ufffd").replace('"', '""') + '"'
