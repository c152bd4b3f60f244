"""XLSX read back by openpyxl, and the XML in the file."""

from __future__ import annotations

import io
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import openpyxl
import pytest

from integration.exports.formats import xlsx
from integration.exports.selection import select
from tests.exports.test_presets import exporting
from tests.support.application import TestApp, running_app
from tests.support.payloads.collection_table import collection_at
from tests.support.payloads.query_reference import CALLS


def workbook(records: list[dict[str, Any]], args: dict[str, str] | None = None) -> Any:
    table = collection_at(":memory:", CALLS, records)
    data = b"".join(xlsx.stream(lambda: nullcontext(table), select(CALLS, args or {})))
    table.close()
    return openpyxl.load_workbook(io.BytesIO(data))


def cells(page: Any) -> list[tuple[Any, ...]]:
    return [tuple(cell.value for cell in row) for row in page.iter_rows()]


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
