"""The page before a file: its rows counted, columns chosen and kept, and the same file behind its buttons."""

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


def test_it_counts_the_rows_of_the_view_and_shows_the_first(app: TestApp) -> None:
    view = urlencode({"range": "all", "outcome": "missed"})
    text = app.log_in().get("/export/call-history?" + urlencode({"view": view})).text
    assert "4 rows" in text
    assert "outcome: missed" in text
    assert "2026-07-07 10:15:00+01:00" in text
    assert text.count("<tr><td") == 4
    page = app.log_in().get("/calls?" + view).text
    link = html.unescape(re.search(r'href="(/export/[^"]+)"', page)[1])
    assert "4 rows" in app.log_in().get(link).text


def test_what_was_asked_for_is_said_in_words_without_what_the_search_found_on_its_way(app: TestApp) -> None:
    app.leg(5)
    app.app_db.write(lambda tx: notes.add_note(tx, 5, "ann@example.com", "Wants a quote"))
    search = {"range": "all", "q": "quote", "hour": "10", "recorded": "1"}
    selection = export_request.build_selection(app.context, "call-history", {"view": urlencode(search)})
    said = ["at the hours asked for", "search: quote", "recorded"]
    assert selection.describe() == [("Filter", one) for one in said]
    assert export_request.build_selection(app.context, "call-history", {}).describe() == [("Filter", "none")]


def test_whatever_can_narrow_calls_has_its_words() -> None:
    found_on_the_way = {"noted_leg_ids", "matched_call_ids", "has_all_matches"}
    assert set(FILTER_LABELS) == {field.name for field in fields(CallFilter)} - found_on_the_way


def test_the_other_files_of_the_same_calls_are_one_click_away(app: TestApp) -> None:
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


def test_ticks_choose_the_columns_of_the_file_and_keep_their_order(app: TestApp) -> None:
    usual = app.log_in().get("/export/call-history").text
    assert ticked(usual)[:3] == ["id", "started_at", "started_local"]
    asked = urlencode([("columns", "talk"), ("columns", "id"), ("bom", "1")])
    assert ticked(app.log_in().get(f"/export/call-history?{asked}").text) == ["talk", "id"]
    answer = exporting(app).get(f"/exports/call-history.csv?{asked}")
    assert next(csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))) == ["talk", "id"]


def test_a_set_is_kept_found_by_its_name_everywhere_and_taken_away(app: TestApp) -> None:
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
def test_a_set_that_could_not_be_used_is_not_kept(app: TestApp, fields: dict[str, str]) -> None:
    answer = app.log_in().post("/export/cdrs/sets", **{"columns": "id", "label": "x", **fields})
    assert answer.status_code == 400


def test_what_cannot_be_exported_says_why(app: TestApp) -> None:
    client = app.log_in()
    assert client.get("/export/nothing").status_code == 404
    answer = client.get("/export/cdrs?columns=nope")
    assert answer.status_code == 400
    assert "nope" in answer.text


def test_only_who_may_export_comes_here_and_sees_what_the_role_may(app: TestApp) -> None:
    agent = app.log_in(ERIN)
    assert agent.get("/export/cdrs").status_code == 403
    people.set_right(app.app_db, people.list_all(app.app_db)[-1].email, "export", True)
    assert agent.get("/export/cdrs").status_code == 200
    assert agent.get("/export/ivrs").status_code == 403
    assert "vm_transcribe" not in agent.get("/export/users").text
