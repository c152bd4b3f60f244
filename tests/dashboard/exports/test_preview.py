"""Export page: row count, first rows, columns, column sets and links."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest

from integration.access import people
from integration.core import clock
from integration.workspace import saved
from tests.exports.test_presets import exporting
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp, module_app, shared_app  # noqa: F401
from tests.support.people import BOB, ERIN, Member


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:  # noqa: F811
    for number in range(1, 8):
        shared_app.call(number, f"2026-07-0{number} 09:15:00", outcome="missed" if number > 3 else "answered")
    return shared_app


def ticked(text: str) -> list[str]:
    return re.findall(r'name="columns" value="([^"]+)" checked', text)


def test_the_preview_counts_the_rows_of_the_view_and_shows_the_first(app: TestApp) -> None:
    view = urlencode({"range": "all", "outcome": "missed"})
    text = app.log_in().get("/export/call-history?" + urlencode({"view": view})).text
    assert "4 rows" in text
    assert 'title="Remove filter">Missed <' in text
    assert "2026-07-07 10:15:00+01:00" in text
    assert text.count("<tr><td") == 4
    page = app.log_in().get("/calls?" + view).text
    link = html.unescape(re.search(r'href="(/export/[^"]+)"', page)[1])
    assert "4 rows" in app.log_in().get(link).text
    app.call(20, "2019-07-01 09:15:00")
    old = urlencode({"from": "2019-07-01", "to": "2019-07-01", "hour": "10"})
    assert "1 row" in app.log_in().get("/export/call-history", params={"view": old}).text


def test_the_preview_links_the_other_exports_of_the_same_calls(app: TestApp) -> None:
    for number in (3, 5, 6):
        app.leg(number)
        app.insert("cdrs", id=100 + number, live_id=number)
    view = urlencode({"range": "all", "outcome": "missed"})
    text = app.log_in().get("/export/call-history?" + urlencode({"view": view})).text
    links = {
        word: html.unescape(url)
        for url, word in re.findall(r'class="chip" href="([^"]+)"[^>]*>([\w ]+)<', text)
    }
    assert "2 rows" in app.log_in().get(links["Call detail records"]).text
    assert "4 rows" in app.log_in().get(links["Missed calls"]).text
    assert "view" not in links["Messages"]


def test_ticked_columns_are_exported_in_their_order(app: TestApp) -> None:
    query = urlencode([("columns", "talk"), ("columns", "id"), ("bom", "1")])
    assert ticked(app.log_in().get(f"/export/call-history?{query}").text) == ["talk", "id"]
    answer = exporting(app).get(f"/exports/call-history.csv?{query}")
    assert next(csv.reader(io.StringIO(answer.data.decode("utf-8-sig")))) == ["talk", "id"]


@pytest.mark.parametrize("name", ["call-history", "cdr-details", "recordings", "users", "queues"])
def test_codes_and_ids_are_unticked_on_the_page_and_kept_in_urls(app: TestApp, name: str) -> None:
    client = app.log_in()
    text = client.get(f"/export/{name}").text
    chosen, more, codes = (
        re.findall(r'name="columns" value="([^"]+)"', part)
        for part in re.split(
            r'<details class="others">', text[text.index('id="order"') : text.index('id="preview"')]
        )
    )
    assert chosen == ticked(text)
    preview = text[text.index('id="preview"') :]
    headings = re.findall(r'<th scope="col" class="nowrap">([^<]+)<', preview)
    assert headings
    assert not [heading for heading in headings if re.search(r"^ID$|[(](code|id)[)]", heading)]
    assert "id" in codes
    assert not set(codes) & {*chosen, *more}
    labels = {"cdr-details": "type_label", "queues": "ring_strategy_label"}
    assert {labels.get(name)} - {None} <= set(chosen)
    file = client.get(f"/exports/{name}.csv").text.splitlines()[0]
    assert file.startswith('"id"')


def test_the_accountant_gets_a_ready_made_column_set_on_the_page_and_by_url(app: TestApp) -> None:
    client = app.log_in()
    text = open_link(app, client.get("/export/call-history").text, "For the accountant")
    expected = [
        "started_local", "direction_label", "party", "party_name", "our_number", "user_name", "talk",
        "charge", "currency",
    ]  # fmt: skip
    assert ticked(text) == expected
    file = exporting(app).get("/exports/call-history.csv?set=For+the+accountant").data.decode()
    assert next(csv.reader(io.StringIO(file))) == expected
    client.post("/export/call-history/sets", columns="talk", label="For the accountant")
    assert ticked(client.get("/export/call-history?set=For+the+accountant").text) == ["talk"]


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


def test_invalid_exports_and_column_sets_get_404_or_400_with_the_reason(app: TestApp) -> None:
    client = app.log_in()
    assert client.get("/export/nothing").status_code == 404
    answer = client.get("/export/cdrs?columns=nope")
    assert answer.status_code == 400
    assert "nope" in answer.text
    for invalid in ({"columns": "nope"}, {"columns": ""}, {"label": " "}):
        answer = client.post("/export/cdrs/sets", **{"columns": "id", "label": "x", **invalid})
        assert answer.status_code == 400, invalid


def test_the_preview_needs_the_right_and_shows_fields_of_the_role(app: TestApp) -> None:
    agent = app.log_in(ERIN)
    assert agent.get("/export/cdrs").status_code == 403
    people.change(app.app_db, people.list_all(app.app_db)[-1].email, rights={"export": True})
    assert agent.get("/export/cdrs").status_code == 200
    assert agent.get("/export/ivrs").status_code == 403
    assert "vm_transcribe" not in agent.get("/export/users").text


# --- period, filter and style ----------------------------------------------------------------------------


def open_link(app: TestApp, text: str, label: str) -> str:
    """Open the link with this label and return its page."""
    found = re.search(rf'<a class="(?:chip|link)[^"]*" href="([^"]+)"[^>]*>{label}<', text)
    assert found, label
    return app.log_in().get(html.unescape(found[1])).text


@pytest.fixture
def october(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> TestApp:
    """CDRs at both ends of October and of last week in London.

    It is Monday, 9 November 2026.
    """
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 9, 12, tzinfo=UTC))
    times = ("2026-09-30 22:59:59", "2026-09-30 23:00:00", "2026-10-31 23:59:59", "2026-11-01 00:00:00",
             "2026-11-02 00:00:00", "2026-11-08 23:59:59", "2026-11-09 00:00:00")  # fmt: skip
    for number, time in enumerate(times, 1):
        app.insert("cdrs", id=number, calldate=time)
    return app


@pytest.mark.parametrize(
    ("label", "rows", "period"),
    [
        ("This week", 1, "9–15 November 2026 (Europe/London)"),
        ("Last week", 2, "2–8 November 2026 (Europe/London)"),
        ("This month", 4, "1–30 November 2026 (Europe/London)"),
        ("Last month", 2, "1–31 October 2026 (Europe/London)"),
    ],
)
def test_a_range_of_cdrs_is_exported_from_the_exports_page(
    october: TestApp, label: str, rows: int, period: str
) -> None:
    page = october.log_in().get("/exports").text
    text = open_link(october, open_link(october, page, "Call detail records"), label)
    assert f"{rows} row" in text
    assert period in text
    parameters = re.findall(r'<input type="hidden" name="(from|to)" value="([^"]+)"', text)
    answer = october.log_in().get("/exports/cdr-details.csv", params=dict(parameters))
    assert answer.headers["X-Export-Rows"] == str(rows)


def test_days_of_the_form_include_the_last_day(october: TestApp) -> None:
    form = {"apply": "1", "first_day": "2026-10-31", "last_day": "2026-10-31", "columns": "id"}
    answer = october.log_in().get("/export/cdr-details", params=form)
    assert "1 row" in answer.text
    assert "31 October 2026 (Europe/London)" in answer.text
    assert (ticked(answer.text), "to=2026-11-01" in answer.url) == (["id"], True)
    assert 'name="first_day" value="2026-10-31"' in answer.text
    assert 'name="last_day" value="2026-10-31"' in answer.text


def test_the_filter_of_calls_is_on_the_export_page_and_can_be_removed(app: TestApp) -> None:
    form = {
        "apply": "1",
        "first_day": "2026-07-02",
        "last_day": "2026-07-05",
        "outcome": "missed",
        "line": "",
    }
    text = app.log_in().get("/export/call-history", params=form).text
    assert "2 rows" in text
    assert '<option value="missed" selected>Missed</option>' in text
    assert "4 rows" in open_link(app, text, "Missed ")


def test_page_preview_and_file_have_the_same_columns_order_zone_and_headings(app: TestApp) -> None:
    query = "columns=talk&columns=ended_local&columns=id&from=2026-07-03&to=2026-07-04"
    for style, headings, time in (
        ("", ["Talked", "Ended (Europe/London)", "ID"], "2026-07-03 10:16:00+01:00"),
        ("&headings=names", ["talk", "ended_local", "id"], "2026-07-03 10:16:00+01:00"),
        ("&tz=UTC", ["Talked", "Ended (UTC)", "ID"], "2026-07-03 09:16:00+00:00"),
    ):
        app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET ended_at = '2026-07-03 09:16:00'"))
        text = app.log_in().get(f"/export/call-history?{query}{style}").text
        preview = text[text.index('id="preview"') :]
        assert re.findall(r'<th scope="col" class="nowrap">([^<]+)<', preview) == headings
        assert re.findall(r'name="columns" value="[^"]+" checked> <span>([^<]+)<', text) == headings
        assert time in preview
        form = text[text.index('id="export"') : text.index('id="order"')]
        fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]+)"', form))
        for name in ("tz", "headings"):
            select = re.search(rf'<select name="{name}">(.*?)</select>', form)
            assert select
            chosen = re.search(r'<option(?: value="([^"]+)")? selected>([^<]+)', select[1])
            assert chosen
            fields[name] = chosen[1] or chosen[2]
        file = app.log_in().get("/exports/call-history.csv", params={**fields, "columns": ticked(text)})
        header, row = csv.reader(io.StringIO(file.text))
        assert (header, row[1]) == (headings, time)
