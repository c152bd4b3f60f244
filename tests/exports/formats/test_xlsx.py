"""XLSX read back by openpyxl, and the XML in the file."""

from __future__ import annotations

import io
import zipfile
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from integration.exports.formats import xlsx
from integration.exports.selection import select
from tests.exports.test_presets import exporting
from tests.support.application import TestApp, running_app
from tests.support.examples import example_count
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import CALLS


def workbook(records: list[dict[str, Any]], args: dict[str, str] | None = None) -> Any:
    table = collection_at(":memory:", CALLS, records)
    data = b"".join(xlsx.stream(lambda: nullcontext(table), select(CALLS, args or {})))
    table.close()
    return openpyxl.load_workbook(io.BytesIO(data))


def cells(page: Any) -> list[tuple[Any, ...]]:
    return [tuple(cell.value for cell in row) for row in page.iter_rows()]


@pytest.mark.parametrize(
    "value",
    ["+442079460001", "00442079460001", "0207", "=1+1", "@SUM(A1)", "-2+3", "1e5", "007", "2026-07-01",
     "TRUE", "http://example.com/", "<r><t>x</t></r>", "<r></c><c><f>1+1</f></c></r>",
     "_x0041_", "a\tb\nc", "Zoë 中文 🎉", "\u202egnp", "x" * 32_767],
)  # fmt: skip
def test_text_cell_is_read_back_exactly(value: str) -> None:
    book = workbook([{"id": 1, "src": value}], {"columns": "src"})
    cell = book.worksheets[0]["A2"]
    assert (unescape(cell.value), cell.data_type) == (value, "s")


def test_times_durations_and_numbers_have_cell_types(tmp_path) -> None:
    with running_app(tmp_path / "data") as app:
        app.call(1, "2026-07-01 09:15:30", talk_seconds=90_000, charge=0.25)
        url = (
            "/exports/call-history.xlsx?columns=started_at,started_local,talk_seconds,talk,charge,party_e164"
        )
        response = exporting(app).get(url)
    assert response.headers["X-Export-Rows"] == "1"
    page = openpyxl.load_workbook(io.BytesIO(response.data)).worksheets[0]
    assert [cell.value for cell in page[2]] == [
        datetime(2026, 7, 1, 9, 15, 30), datetime(2026, 7, 1, 10, 15, 30), 90_000, timedelta(hours=25), 0.25,
        "+447700900101",
    ]  # fmt: skip
    assert page["D2"].number_format == "[h]:mm:ss"


def test_last_sheet_describes_the_export() -> None:
    records = [{"id": number, "calldate": "2026-07-01 12:00:00", "src": "7"} for number in range(1, 4)]
    condition = '[{"property":"src","operator":"eq","value":"7"}]'
    book = workbook(records, {"filter": condition, "tz": "Europe/London", "from": "2026-07-01"})
    about = cells(book["About"])
    assert ("Filter", "src eq 7") in about
    assert ("Period", "from 1 July 2026 (Europe/London)") in about
    assert ("Time zone", "Europe/London") in about
    assert ("Rows", 3) in about
    assert dict(about)["Made"].endswith("UTC")
    assert "Sheets" not in dict(about)


def test_a_long_title_is_cut_between_words(shared_app: TestApp) -> None:
    response = exporting(shared_app).get("/exports/msdrs.xlsx?headings=words")
    book = openpyxl.load_workbook(io.BytesIO(response.data))
    assert book.sheetnames == ["Media session detail", "About"]


def test_rows_beyond_the_sheet_limit_continue_in_further_sheets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_SHEET_ROWS", 4)
    book = workbook([{"id": number} for number in range(1, 8)], {"columns": "id"})
    assert book.sheetnames == ["cdrs", "cdrs 2", "cdrs 3", "About"]
    ids = [row[0] for page in book.worksheets[:-1] for row in cells(page)[1:]]
    assert ids == list(range(1, 8))
    assert all(cells(page)[0] == ("id",) for page in book.worksheets[:-1])
    assert dict(cells(book["About"]))["Sheets"].startswith("3")


@pytest.mark.parametrize(("text", "kept"), [("x" * 40_000, 32_767), ("🎉" * 20_000, 16_383)])
def test_text_beyond_the_cell_limit_is_truncated_and_counted(text: str, kept: int) -> None:
    book = workbook([{"id": 1, "src": text}], {"columns": "src"})
    assert len(book.worksheets[0]["A2"].value) == kept
    assert dict(cells(book["About"]))["Cut"].startswith("1 ")


def test_values_without_a_cell_type_are_stored_as_text() -> None:
    big = 2**60 + 1
    record = {"id": 1, "duration": "soon", "live_id": big, "calldate": "1850-01-01 00:00:00", "src": "a\x00b"}
    page = workbook([record], {"columns": "duration,live_id,calldate,src"}).worksheets[0]
    assert [cell.value for cell in page[2]] == ["soon", str(big), "1850-01-01 00:00:00", "a\ufffdb"]


def test_empty_export_has_a_sheet_with_a_header() -> None:
    book = workbook([], {"columns": "id,src"})
    assert cells(book.worksheets[0]) == [("id", "src")]
    assert ("Rows", 0) in cells(book["About"])


def test_workbook_has_no_formula_and_no_hyperlink() -> None:
    table = collection_at(
        ":memory:", CALLS, [{"id": 1, "src": "=HYPERLINK(1)", "src_name": "http://example.com"}]
    )
    data = b"".join(xlsx.stream(lambda: nullcontext(table), select(CALLS, {})))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        page = archive.read("xl/worksheets/sheet1.xml")
    assert b"<f>" not in page
    assert b"hyperlink" not in page.lower().replace(b"=hyperlink", b"")


TEXT = st.text(
    alphabet=st.characters(blacklist_categories=("Cs",), blacklist_characters="\r"), max_size=8
).filter(lambda text: "\x00" not in text and all(ord(letter) >= 32 or letter in "\t\n" for letter in text))


@example_count(12, exhaustive=60)
@given(st.lists(st.tuples(TEXT, st.none() | st.integers(-(2**53), 2**53)), max_size=6))
def test_random_cells_are_read_back_unchanged(rows: list[tuple[str, int | None]]) -> None:
    records = [{"id": n, "src": text, "duration": number} for n, (text, number) in enumerate(rows, 1)]
    page = workbook(records, {"columns": "src,duration"}).worksheets[0]
    read = page.iter_rows(min_row=2, max_row=len(rows) + 1, max_col=2, values_only=True)
    assert [(unescape(text or ""), number) for text, number in read][: len(rows)] == rows
