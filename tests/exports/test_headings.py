"""Headings, zone and file names of exports of pages and keys."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from html import unescape
from typing import Any
from urllib.parse import urlencode

import openpyxl
import pytest

from integration.exports.presets import PRESETS
from tests.exports.test_presets import exporting
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp

TIMES = {"answered_at": "2026-07-01 09:15:20", "ended_at": "2026-07-01 09:17:00"}


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    shared_app.call(1, "2026-07-01 09:15:00", outcome="answered", direction="in", **TIMES)
    return shared_app


def lines(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def link(app: TestApp, page: str, suffix: str) -> str:
    text = app.log_in().get(page).text
    found = re.search(rf'href="(/exports/[^"]+\.{suffix}[^"]*)"', text)
    assert found
    return unescape(found[1])


def test_an_export_from_the_page_calls_has_local_times_and_headings_in_words(app: TestApp) -> None:
    header, row = lines(exporting(app).get(link(app, "/calls?range=all", "csv")).data)
    cells = dict(zip(header, row, strict=True))
    assert header[:6] == ["ID", "Started (Europe/London)", "Direction (code)", "Direction", "Outcome (code)",
                          "Outcome"]  # fmt: skip
    assert [(heading, text) for heading, text in cells.items() if "2026" in text] == [
        ("Started (Europe/London)", "2026-07-01 10:15:00+01:00"),
        ("Answered (Europe/London)", "2026-07-01 10:15:20+01:00"),
        ("Ended (Europe/London)", "2026-07-01 10:17:00+01:00"),
    ]
    assert (cells["Waited (seconds)"], cells["Waited"]) == ("7", "0:00:07")
    assert len(set(header)) == len(header)


def test_an_export_with_a_key_keeps_its_names_and_utc(app: TestApp) -> None:
    answer = app.client.get("/exports/call-history.csv", headers=app.headers)
    header, row = lines(answer.data)
    assert tuple(header) == PRESETS["call-history"].columns
    cells = dict(zip(header, row, strict=True))
    assert (cells["started_at"], cells["ended_at"]) == ("2026-07-01 09:15:00", "2026-07-01 09:17:00")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="call-history.csv"'


def test_chosen_columns_keep_their_meaning_and_name_their_zone(app: TestApp) -> None:
    url = "/exports/call-history.csv?columns=started_at,started_local&tz=Europe/Paris&headings="
    expected = ["2026-07-01 09:15:00", "2026-07-01 11:15:00+02:00"]
    words = lines(exporting(app).get(url + "words").data)
    assert words == [["Started (UTC)", "Started (Europe/Paris)"], expected]
    assert lines(exporting(app).get(url + "names").data) == [["started_at", "started_local"], expected]


def test_a_workbook_describes_its_filters_in_words(app: TestApp) -> None:
    app.put("users", {"id": 11, "first_name": "Ada", "last_name": "Marlow"})
    url = link(app, "/calls?range=all&direction=in&outcome=missed&person=11&country=44", "xlsx")
    client = exporting(app)
    book = openpyxl.load_workbook(io.BytesIO(client.get(url).data))
    filters = [value for name, value in book["About"].iter_rows(values_only=True) if name == "Filter"]
    assert filters == ["Inbound", "Missed", "Ada Marlow", "country +44"]
    condition = '[{"property":"direction","operator":"ne","value":"out"}]'
    parameters = urlencode({"filter": condition, "headings": "words", "sort": "started_at", "dir": "DESC"})
    book = openpyxl.load_workbook(io.BytesIO(client.get(f"/exports/call-history.xlsx?{parameters}").data))
    about = list(book["About"].iter_rows(values_only=True))
    assert ("Filter", "Direction is not out") in about
    assert ("Sorted by", "Started at, descending") in about
    assert ("Export", "Calls") in about
    assert book.sheetnames == ["Calls", "About"]


def test_a_workbook_with_names_shows_which_cells_are_utc(app: TestApp) -> None:
    url = "/exports/call-history.xlsx?columns=started_at,started_local"
    book = openpyxl.load_workbook(io.BytesIO(exporting(app).get(url).data))
    assert book.sheetnames == ["call-history", "About"]
    utc_cell, local_cell = next(book.worksheets[0].iter_rows(min_row=2))
    assert (utc_cell.value, local_cell.value) == (datetime(2026, 7, 1, 9, 15), datetime(2026, 7, 1, 10, 15))
    assert utc_cell.is_date
    assert "UTC" in utc_cell.number_format
    assert "UTC" not in local_cell.number_format
    assert ("Columns in UTC", "started_at") in list(book["About"].iter_rows(values_only=True))


@pytest.mark.exhaustive
def test_parquet_times_of_a_collection_are_instants_in_the_zone_of_the_export(app: TestApp) -> None:
    app.insert("cdrs", id=5, calldate="2026-07-01 09:15:00")
    import pyarrow.parquet

    url = "/exports/cdrs.parquet?columns=calldate&tz=Europe/London&headings=words"
    table = pyarrow.parquet.read_table(io.BytesIO(exporting(app).get(url).data))
    assert str(table.schema.field("Time (Europe/London)").type) == "timestamp[ms, tz=Europe/London]"
    (moment,) = table.column("Time (Europe/London)").to_pylist()
    assert moment.isoformat() == "2026-07-01T10:15:00+01:00"


def test_raw_records_are_kept_for_programs_only(app: TestApp) -> None:
    app.put("cdrs", {"id": 5, "calldate": "2026-07-01 09:15:00"})
    client = exporting(app)
    assert json.loads(client.get("/exports/cdrs.jsonl").data) == {"id": 5, "calldate": "2026-07-01 09:15:00"}
    record = json.loads(client.get("/exports/cdrs.jsonl?headings=words&tz=Europe/London").data)
    assert record["Time (Europe/London)"] == "2026-07-01 10:15:00+01:00"


@pytest.mark.parametrize("name", PRESETS)
def test_headings_in_words_are_unique(app: TestApp, name: str) -> None:
    page = app.log_in().get(f"/export/{name}").text
    columns = list(dict.fromkeys(re.findall(r'name="columns" value="([^"]+)"', page)))
    answer = exporting(app).get(f"/exports/{name}.csv?headings=words&columns={','.join(columns[:120])}")
    (header, *_) = lines(answer.data)
    assert len(set(header)) == len(header) == len(columns)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("from=2026-10-01&to=2026-11-01", "calls-2026-10"),
        ("from=2026-10-05&to=2026-10-06", "calls-2026-10-05"),
        ("from=2026-10-05&to=2026-10-12", "calls-2026-W41"),
        ("from=2026-10-05&to=2026-10-10", "calls-2026-10-05-to-2026-10-09"),
        ("from=2026-10-05", "calls-from-2026-10-05"),
        ("to=2026-10-05", "calls-until-2026-10-04"),
        ("", "calls-all"),
        ("view=from%3D2026-10-01%26to%3D2026-10-31", "calls-2026-10"),
        ("from=2026-10-01 00:00:00Z&to=2026-11-01", "calls-2026-10-01-to-2026-10-31"),
    ],
)
def test_files_from_a_page_are_named_by_their_period(app: TestApp, query: str, name: str) -> None:
    url = f"/exports/call-history.xlsx?headings=words&tz=Europe/London&{query}"
    disposition = exporting(app).head(url).headers["Content-Disposition"]
    assert disposition == f'attachment; filename="{name}.xlsx"'


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("cdr-details.csv?headings=words&tz=Europe/London&from=2026-10-01&to=2026-11-01",
         "call-detail-records-2026-10.csv"),
        ("cdrs.csv?from=2026-10-01&to=2026-11-01", "cdrs-2026-10.csv"),
        ("users.csv?headings=words", "users.csv"),
        ("recordings.zip?headings=words", "recordings-all.zip"),
    ],
)  # fmt: skip
def test_file_names_of_other_exports(app: TestApp, path: str, name: str) -> None:
    disposition = exporting(app).head(f"/exports/{path}").headers["Content-Disposition"]
    assert disposition == f'attachment; filename="{name}"'


@pytest.mark.parametrize(
    ("query", "reason"),
    [("headings=latin", "headings"), ("from=0001-01-01&tz=Asia/Tokyo", "too early")],
)
def test_an_invalid_parameter_gets_400_with_the_reason(app: TestApp, query: str, reason: str) -> None:
    answer: Any = exporting(app).get(f"/exports/call-history.csv?{query}")
    assert answer.status_code == 400
    assert reason in answer.json["message"]
