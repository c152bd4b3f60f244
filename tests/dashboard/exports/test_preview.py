"""Export page: row count, first rows, columns, column sets and links."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlencode

import pytest

from integration.access import people
from integration.exports import export_request
from integration.exports.selection import FILTER_LABELS
from integration.mirror.page_queries.history import CallFilter
from integration.workspace import notes, saved
from tests.exports.test_presets import exporting
from tests.support.application import TestApp, running_app
from tests.support.people import BOB, ERIN, Member


@pytest.fixture
def app(tmp_path: Path) -> Iterator[TestApp]:
    with running_app(tmp_path / "data") as app:
        for number in range(1, 8):
            app.call(number, f"2026-07-0{number} 09:15:00", outcome="missed" if number > 3 else "answered")
        yield app


def ticked(text: str) -> list[str]:
    return re.findall(r'name="columns" value="([^"]+)" checked', text)


def test_the_preview_counts_the_rows_of_the_view_and_shows_the_first(app: TestApp) -> None:
    view = urlencode({"range": "all", "outcome": "missed"})
    text = app.log_in().get("/export/call-history?" + urlencode({"view": view})).text
    assert "4 rows" in text
    assert "outcome: missed" in text
    assert "2026-07-07 10:15:00+01:00" in text
    assert text.count("<tr><td") == 4
    page = app.log_in().get("/calls?" + view).text
    link = html.unescape(re.search(r'href="(/export/[^"]+)"', page)[1])
    assert "4 rows" in app.log_in().get(link).text


def test_a_selection_is_described_by_its_filters_without_results_of_the_search(app: TestApp) -> None:
    app.leg(5)
    app.app_db.write(lambda tx: notes.add_note(tx, 5, "ann@example.com", "Wants a quote"))
    search = {"range": "all", "q": "quote", "hour": "10", "recorded": "1"}
    selection = export_request.build_selection(app.context, "call-history", {"view": urlencode(search)})
    descriptions = ["at the chosen hours", "search: quote", "recorded"]
    assert selection.describe() == [("Filter", one) for one in descriptions]
    assert export_request.build_selection(app.context, "call-history", {}).describe() == [("Filter", "none")]


def test_every_filter_of_calls_has_a_label() -> None:
    search_results = {"noted_leg_ids", "matched_call_ids", "has_all_matches"}
    period = {"since", "until"}
    assert set(FILTER_LABELS) == {field.name for field in fields(CallFilter)} - search_results - period


def test_the_preview_links_the_other_exports_of_the_same_calls(app: TestApp) -> None:
    for number in (3, 5, 6):
        app.leg(number)
        app.insert("cdrs", id=100 + number, live_id=number)
    view = urlencode({"range": "all", "outcome": "missed"})
    text = app.log_in().get("/export/call-history?" + urlencode({"view": view})).text
    links = {
        word: html.unescape(url) for url, word in re.findall(r'class="chip" href="([^"]+)"[^>]*>(\w+)<', text)
    }
    assert "2 rows" in app.log_in().get(links["CDRs"]).text
    assert "4 rows" in app.log_in().get(links["Missed"]).text
    assert "view" not in links["Messages"]


def test_ticked_columns_are_exported_in_their_order(app: TestApp) -> None:
    usual = app.log_in().get("/export/call-history").text
    assert ticked(usual)[:3] == ["id", "started_at", "started_local"]
    query = urlencode([("columns", "talk"), ("columns", "id"), ("bom", "1")])
    assert ticked(app.log_in().get(f"/export/call-history?{query}").text) == ["talk", "id"]
    answer = exporting(app).get(f"/exports/call-history.csv?{query}")
    assert next(csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))) == ["talk", "id"]


def test_a_column_set_is_saved_shared_used_by_name_and_removed(app: TestApp) -> None:
    boss, other = app.log_in(BOB), app.log_in(Member("frank@example.com", "supervisor"))
    answer = boss.post("/export/cdrs/sets", columns="dst,calldate_local", label=" for  tax ", shared="1")
    assert ticked(answer.text) == ["dst", "calldate_local"]
    assert "for tax · shared" in other.get("/export/cdrs").text
    assert ticked(other.get("/export/cdrs?set=for+tax").text) == ["dst", "calldate_local"]
    data = exporting(app).get("/exports/cdrs.csv?set=for+tax").data
    assert data == b'"dst","calldate_local"\r\n'
    assert exporting(app).get("/exports/cdrs.csv?set=for+tax&columns=id").status_code == 400
    with app.app_db.read() as connection:
        (kept,) = saved.all_of(connection, saved.COLUMN_SETS, "cdrs", None)
    assert other.post(f"/export/cdrs/sets/{kept.id}/remove").status_code == 404
    assert boss.post(f"/export/cdrs/sets/{kept.id}/remove").status_code == 200
    assert exporting(app).get("/exports/cdrs.csv?set=for+tax").status_code == 400


@pytest.mark.parametrize("fields", [{"columns": "nope"}, {"columns": ""}, {"label": " "}])
def test_an_invalid_column_set_gets_400(app: TestApp, fields: dict[str, str]) -> None:
    answer = app.log_in().post("/export/cdrs/sets", **{"columns": "id", "label": "x", **fields})
    assert answer.status_code == 400


def test_an_invalid_export_gets_404_or_400_with_the_reason(app: TestApp) -> None:
    client = app.log_in()
    assert client.get("/export/nothing").status_code == 404
    answer = client.get("/export/cdrs?columns=nope")
    assert answer.status_code == 400
    assert "nope" in answer.text


def test_the_preview_needs_the_right_and_shows_fields_of_the_role(app: TestApp) -> None:
    agent = app.log_in(ERIN)
    assert agent.get("/export/cdrs").status_code == 403
    people.set_right(app.app_db, people.list_all(app.app_db)[-1].email, "export", True)
    assert agent.get("/export/cdrs").status_code == 200
    assert agent.get("/export/ivrs").status_code == 403
    assert "vm_transcribe" not in agent.get("/export/users").text
