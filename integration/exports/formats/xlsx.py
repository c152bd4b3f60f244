"""XLSX for Excel: text stays text (phone numbers keep plus and zeros), times and durations are real ones.

The rows' sheets come first, as many as Excel's limit of rows demands; the last sheet says what this is a file
of: the export, its filter, zone, time, row count, and what did not fit.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain
from typing import IO, Any
from zoneinfo import ZoneInfo

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from integration.core import clock
from integration.exports.query import Column, Kind, Sheet, Stream
from integration.exports.selection import Reader, Selection
from integration.exports.sql_functions import moment_of, without_nul

ROWS = 1_048_576
"""Rows of one sheet, its header included (the file format's limit)."""
LONGEST = 32_767
"""Characters of one cell (the file format's limit)."""
EXACT = 2**53
"""Beyond it a number loses its last figures in Excel: such ids are written as text."""
PIECE = 1 << 16

_WIDTHS: dict[Kind, int] = {"time": 19, "utc": 19, "local": 19, "text": 18}
_DAY = 86_400
_EPOCH = datetime(1899, 12, 30)
CUT = -2
"""What XlsxWriter answers where it had to shorten a text."""


def stream(read: Reader, selection: Selection, *, rows: int = ROWS) -> Stream:
    """The file in chunks, the first of them when all rows are written (to a temporary file).

    Raises QueryError at once.
    """
    return Stream(read, selection, partial(chunks, selection=selection, rows=rows))


def chunks(
    connection: sqlite3.Connection, sheet: Sheet, *, selection: Selection, rows: int = ROWS
) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        write(connection, sheet, selection, file, rows=rows)
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece


def write(
    connection: sqlite3.Connection, sheet: Sheet, selection: Selection, file: IO[bytes], *, rows: int = ROWS
) -> None:
    """Write the workbook; memory does not grow with it. `rows` is what one sheet may hold."""
    book = xlsxwriter.Workbook(file, {"constant_memory": True, "in_memory": False})
    book.set_properties({"title": sheet.name, "comments": "Made by Switchroom"})
    bold = book.add_format({"bold": True})
    forms = _Forms(
        book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}), book.add_format({"num_format": "[h]:mm:ss"})
    )
    sheets = written = 0
    page: _Page | None = None
    writers: list[Writer] = []
    at = rows
    for row in chain.from_iterable(sheet.rows(connection)):
        if page is None or at == rows:
            _end(page, at, sheet)
            sheets += 1
            page, at = _begin(book, sheet, sheets, bold), 1
            writers = [_writer(page, column, sheet, forms) for column in sheet.columns]
        for number, value in enumerate(row):
            if value is not None:
                writers[number](at, number, value)
        at += 1
        written += 1
    if page is None:
        page, at, sheets = _begin(book, sheet, 1, bold), 1, 1
    _end(page, at, sheet)
    about = book.add_worksheet("About", worksheet_class=_Page)
    about.set_column(0, 0, 22)
    about.set_column(1, 1, 80)
    lines: list[tuple[str, str | int]] = [
        ("Export", sheet.name),
        *selection.described(),
        ("Time zone", sheet.zone.key if sheet.zone else "UTC"),
        ("Made", f"{clock.stamp()} UTC"),
        ("Rows", written),
    ]
    if sheets > 1:
        lines.append(("Sheets", f"{sheets}, since a sheet holds {rows - 1} rows beside its header"))
    if forms.cut:
        lines.append(("Cut", f"{forms.cut} cells at {LONGEST} characters, the most that a cell holds"))
    for number, (name, value) in enumerate(lines):
        about.write_string(number, 0, name, bold)
        if isinstance(value, int):
            about.write_number(number, 1, value)
        else:
            about.write_string(number, 1, value[:LONGEST])
    book.close()


class _Page(Worksheet):
    """A sheet that takes text for text: with constant memory XlsxWriter would write `<r>…</r>` as it stands,
    as XML that whoever wrote it into a field chose."""

    def _xml_rich_inline_string(self, string: Any, attributes: Any = ()) -> None:
        self._xml_inline_string(string, False, attributes)


def _begin(book: xlsxwriter.Workbook, sheet: Sheet, number: int, bold: Format) -> _Page:
    name = sheet.name.replace("/", " ")[:26]
    page = book.add_worksheet(name if number == 1 else f"{name} {number}", worksheet_class=_Page)
    assert isinstance(page, _Page)
    page.freeze_panes(1, 0)
    for place, column in enumerate(sheet.columns):
        page.set_column(place, place, max(_WIDTHS.get(column.kind, 10), min(len(column.name) + 2, 30)))
    for place, column in enumerate(sheet.columns):
        page.write_string(0, place, column.name, bold)
    return page


def _end(page: _Page | None, rows: int, sheet: Sheet) -> None:
    if page is not None and sheet.columns:
        page.autofilter(0, 0, rows - 1, len(sheet.columns) - 1)


class _Forms:
    """How cells look, and how many had to be cut."""

    def __init__(self, moment: Format, duration: Format) -> None:
        self.moment = moment
        self.duration = duration
        self.cut = 0


Writer = Callable[[int, int, Any], object]


def _writer(page: _Page, column: Column, sheet: Sheet, forms: _Forms) -> Writer:
    """What writes a cell of this column by its row and place; whatever drifted in is text.

    The methods behind `write_string` and `write_number`: these also take 'A1', which costs a tenth of it all.
    """
    zone = {"time": sheet.zone, "local": sheet.local}.get(column.kind)
    write_string, write_number = page._write_string, page._write_number
    as_moment, as_duration = forms.moment, forms.duration

    def text(row: int, place: int, value: Any) -> None:
        if type(value) is not str:
            value = str(value)
        if "\x00" in value:
            value = without_nul(value)
        if write_string(row, place, value) == CUT:
            forms.cut += 1

    def number(row: int, place: int, value: Any) -> None:
        if type(value) is str or not -EXACT <= value <= EXACT:
            text(row, place, value)
        else:
            write_number(row, place, value)

    def duration(row: int, place: int, value: Any) -> None:
        if type(value) is str or not 0 <= value <= EXACT:
            text(row, place, value)
        else:
            write_number(row, place, value / _DAY, as_duration)

    def moment(row: int, place: int, value: Any) -> None:
        days = _days(value, zone)
        if days is None:
            text(row, place, value)
        else:
            write_number(row, place, days, as_moment)

    if column.kind in ("time", "utc", "local"):
        return moment
    if column.kind == "duration":
        return duration
    return text if column.kind in ("text", "json", "secret") else number


def _days(value: Any, zone: ZoneInfo | None) -> float | None:
    """A stored time as Excel counts: in days, without zones. None for what is no time, or before 1901."""
    moment = moment_of(value)
    if moment is None or not 1900 < moment.year < 9999:
        return None
    there = (moment if zone is None else moment.astimezone(zone)).replace(tzinfo=None) - _EPOCH
    return there.days + there.seconds / _DAY
