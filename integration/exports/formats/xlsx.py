"""XLSX for Excel: text stays text (phone numbers keep plus and zeros).

Times and durations are typed cells.

Rows are distributed over as many sheets as Excel's row limit requires. The last sheet describes the file:
export, filter, time zone, creation time, number of rows, and truncated cells.
"""

from __future__ import annotations

import re
import sqlite3
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import IO, Any
from zoneinfo import ZoneInfo

import xlsxwriter
from xlsxwriter.format import Format as CellFormat
from xlsxwriter.worksheet import Worksheet

from integration.core import clock
from integration.exports.columns import ColumnKind
from integration.exports.formats.format import Format
from integration.exports.query import Column, ExportQuery, ExportStream, stream_spooled
from integration.exports.selection import OpenReader, Selection
from integration.exports.sql_functions import parse_utc, without_nul
from integration.mirror.page_queries import history

MAX_SHEET_ROWS = 1_048_576
"""Largest number of rows of a sheet including its header (limit of the file format)."""
MAX_CELL_CHARACTERS = 32_767
"""Largest number of characters of a cell (limit of the file format)."""
MAX_EXACT_INTEGER = 2**53
"""Largest integer written as a number. Excel would lose the last digits of larger ids; they become text."""

_WIDTHS: dict[ColumnKind, int] = {"time": 23, "utc": 23, "local": 19, "text": 18}
_FORBIDDEN_IN_SHEET_NAMES = re.compile(r"[\[\]:*?/\\]")
MAX_SHEET_NAME = 26
"""Characters of a sheet name. Excel accepts 31; the number of a sheet needs the others."""
_DAY_SECONDS = 86_400
_EPOCH = datetime(1899, 12, 30)
"""Day 0 of Excel's date numbers."""
TRUNCATED = -2
"""Return value of XlsxWriter for a truncated text."""


def stream(read: OpenReader, selection: Selection) -> ExportStream:
    """Return the file in chunks. Raises QueryError immediately."""
    return stream_spooled(read, selection, write)


def write(
    connection: sqlite3.Connection,
    export_query: ExportQuery,
    selection: Selection,
    file: IO[bytes],
) -> None:
    """Write the workbook in constant memory."""
    workbook = xlsxwriter.Workbook(file, {"constant_memory": True, "in_memory": False})
    title = selection.title if selection.has_word_headings else export_query.name
    workbook.set_properties({"title": title, "comments": "Created by Switchroom"})
    bold = workbook.add_format({"bold": True})
    formats = _CellFormats(
        workbook.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        workbook.add_format({"num_format": 'yyyy-mm-dd hh:mm:ss "UTC"'}),
        workbook.add_format({"num_format": "[h]:mm:ss"}),
    )
    sheet_count = row_count = 0
    worksheet: _TextWorksheet | None = None
    writers: list[CellWriter] = []
    row_index = MAX_SHEET_ROWS
    for row in chain.from_iterable(export_query.fetch_batches(connection)):
        if worksheet is None or row_index == MAX_SHEET_ROWS:
            _finish_worksheet(worksheet, row_index, export_query)
            sheet_count += 1
            worksheet, row_index = _add_worksheet(workbook, export_query, title, sheet_count, bold), 1
            writers = [
                _make_cell_writer(worksheet, column, export_query, formats) for column in export_query.columns
            ]
        for index, value in enumerate(row):
            if value is not None:
                writers[index](row_index, index, value)
        row_index += 1
        row_count += 1
    if worksheet is None:
        worksheet, row_index, sheet_count = _add_worksheet(workbook, export_query, title, 1, bold), 1, 1
    _finish_worksheet(worksheet, row_index, export_query)
    about_sheet = workbook.add_worksheet("About", worksheet_class=_TextWorksheet)
    about_sheet.set_column(0, 0, 22)
    about_sheet.set_column(1, 1, 80)
    lines: list[tuple[str, str | int]] = [
        ("Export", title),
        *selection.describe(history.list_users(connection) if selection.call_filters else ()),
        *_describe_zones(export_query),
        ("Made", f"{clock.utc_text()} UTC"),
        ("Rows", row_count),
    ]
    if sheet_count > 1:
        lines.append(
            ("Sheets", f"{sheet_count}, since a sheet holds {MAX_SHEET_ROWS - 1} rows beside its header")
        )
    if formats.truncated_count:
        lines.append(
            (
                "Cut",
                f"{formats.truncated_count} cells at {MAX_CELL_CHARACTERS} characters, "
                "the most that a cell holds",
            )
        )
    for index, (name, value) in enumerate(lines):
        about_sheet.write_string(index, 0, name, bold)
        if isinstance(value, int):
            about_sheet.write_number(index, 1, value)
        else:
            about_sheet.write_string(index, 1, value[:MAX_CELL_CHARACTERS])
    workbook.close()


def _describe_zones(export_query: ExportQuery) -> list[tuple[str, str]]:
    zone = export_query.zone.key if export_query.zone else "UTC"
    lines = [("Time zone", zone)]
    in_utc = [column.heading for column in export_query.columns if column.kind == "utc"]
    if in_utc and zone != "UTC":
        lines.append(("Columns in UTC", ", ".join(in_utc)))
    if export_query.zone is None and any(column.kind == "local" for column in export_query.columns):
        lines.append(("Zone of local times", export_query.local_zone.key))
    return lines


class _TextWorksheet(Worksheet):
    """A worksheet that escapes all text.

    In constant memory mode XlsxWriter writes a text `<r>…</r>` unescaped, so a field could inject XML.
    """

    def _xml_rich_inline_string(self, string: Any, attributes: Any = ()) -> None:
        self._xml_inline_string(string, False, attributes)


def _add_worksheet(
    workbook: xlsxwriter.Workbook, export_query: ExportQuery, title: str, sheet_number: int, bold: CellFormat
) -> _TextWorksheet:
    name = textwrap.shorten(_FORBIDDEN_IN_SHEET_NAMES.sub(" ", title), MAX_SHEET_NAME, placeholder="")
    worksheet = workbook.add_worksheet(
        name if sheet_number == 1 else f"{name} {sheet_number}", worksheet_class=_TextWorksheet
    )
    assert isinstance(worksheet, _TextWorksheet)
    worksheet.freeze_panes(1, 0)
    for column_index, column in enumerate(export_query.columns):
        worksheet.set_column(
            column_index, column_index, max(_WIDTHS.get(column.kind, 10), min(len(column.heading) + 2, 34))
        )
    for column_index, column in enumerate(export_query.columns):
        worksheet.write_string(0, column_index, column.heading, bold)
    return worksheet


def _finish_worksheet(worksheet: _TextWorksheet | None, row_count: int, export_query: ExportQuery) -> None:
    if worksheet is not None and export_query.columns:
        worksheet.autofilter(0, 0, row_count - 1, len(export_query.columns) - 1)


@dataclass(slots=True)
class _CellFormats:
    """Formats of time and duration cells, and the number of truncated cells.

    `utc_format` shows “UTC” after the time, for columns whose heading has no zone.
    """

    time_format: CellFormat
    utc_format: CellFormat
    duration_format: CellFormat
    truncated_count: int = 0


CellWriter = Callable[[int, int, Any], object]


def _make_cell_writer(
    worksheet: _TextWorksheet, column: Column, export_query: ExportQuery, formats: _CellFormats
) -> CellWriter:
    """Return a function that writes a cell of `column`.

    Values of another type are written as text.
    """
    zone = {"time": export_query.zone, "local": export_query.local_zone}.get(column.kind)
    write_string, write_number = worksheet.write_string, worksheet.write_number
    is_unlabelled_utc = column.kind in ("time", "utc") and zone is None and not column.words
    time_format = formats.utc_format if is_unlabelled_utc else formats.time_format
    duration_format = formats.duration_format

    def write_text_cell(row: int, column_index: int, value: Any) -> None:
        if type(value) is not str:
            value = str(value)
        if "\x00" in value:
            value = without_nul(value)
        if write_string(row, column_index, value) == TRUNCATED:
            formats.truncated_count += 1

    def write_number_cell(row: int, column_index: int, value: Any) -> None:
        if type(value) is str or not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER:
            write_text_cell(row, column_index, value)
        else:
            write_number(row, column_index, value)

    def write_duration_cell(row: int, column_index: int, value: Any) -> None:
        if type(value) is str or not 0 <= value <= MAX_EXACT_INTEGER:
            write_text_cell(row, column_index, value)
        else:
            write_number(row, column_index, value / _DAY_SECONDS, duration_format)

    def write_time_cell(row: int, column_index: int, value: Any) -> None:
        days = _to_excel_days(value, zone)
        if days is None:
            write_text_cell(row, column_index, value)
        else:
            write_number(row, column_index, days, time_format)

    if column.kind in ("time", "utc", "local"):
        return write_time_cell
    if column.kind == "duration":
        return write_duration_cell
    return write_text_cell if column.kind in ("text", "json", "secret") else write_number_cell


def _to_excel_days(value: Any, zone: ZoneInfo | None) -> float | None:
    """Convert a stored time to Excel's number of days.

    Returns None for an invalid time or one before 1901.
    """
    moment = parse_utc(value) if zone is None else clock.to_zone(parse_utc(value), zone)
    if moment is None or not 1900 < moment.year < 9999:
        return None
    since_epoch = moment.replace(tzinfo=None) - _EPOCH
    return since_epoch.days + since_epoch.seconds / _DAY_SECONDS


FORMAT = Format(
    suffix="xlsx",
    mime="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    label="Excel",
    hint="A workbook: phone numbers as text, times and durations as Excel values",
    stream=lambda read, selection, _options: stream(read, selection),
    order=10,
    background_above=50_000,
    write=write,
)
