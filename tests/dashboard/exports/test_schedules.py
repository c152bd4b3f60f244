"""Page Exports: the user's own export jobs, schedules and their log."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest

from integration.access import audit, people, sessions
from integration.core import clock
from integration.exports import jobs
from integration.exports.formats import FORMATS
from integration.exports.jobs import ExportJob
from integration.workspace import saved
from tests.support.application import Browser, TestApp
from tests.support.downloads import add_download
from tests.support.people import Member

NEW = "/exports/schedules/new"
FORM = {
    "export": "call-history", "name": "Front desk", "form": "csv", "every": "day", "at": "06:00",
    "zone": "Europe/London", "target": "folder", "place": "desk", "wait_hours": "6",
    "otherwise": "incomplete",
}  # fmt: skip


def schedules(app: TestApp) -> list[ExportJob]:
    with app.app_db.read() as connection:
        return jobs.list_schedules(connection)


def text(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_schedule_is_created_changed_paused_run_and_removed(
    app: TestApp, client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    nudged: list[str] = []
    monkeypatch.setattr(app.context.scheduler, "nudge", nudged.append)
    made = client.post(NEW, **FORM, columns="id, started_local")
    (one,) = schedules(app)
    assert made.url.endswith(f"/exports/schedules/{one.id}")
    assert (one.who, one.export, one.args) == (
        "alice@example.com", "call-history", {"columns": "id, started_local"},
    )  # fmt: skip
    assert "Front desk" in text(client.get("/exports").text)
    assert "Choose another name" in text(client.post(NEW, **{**FORM, "name": "front  DESK"}).text)
    client.post(f"/exports/schedules/{one.id}", **{**FORM, "name": "Back office", "every": "week"})
    (one,) = schedules(app)
    assert (one.name, one.file, one.every, one.args) == ("Back office", "back-office", "week", {})
    client.post(f"/exports/schedules/{one.id}/pause")
    assert "paused since" in text(client.get(f"/exports/schedules/{one.id}").text)
    client.post(f"/exports/schedules/{one.id}/resume")
    assert schedules(app)[0].paused_at is None
    client.post(f"/exports/schedules/{one.id}/run")
    with app.app_db.read() as connection:
        (run,) = jobs.list_open_runs(connection, one.id)
    assert run.at_once
    assert nudged == ["exports"] * 4
    client.post(f"/exports/schedules/{one.id}/remove")
    assert schedules(app) == []
    assert [entry.what for entry in audit.list_newest(app.app_db)] == [
        "schedule removed", "schedule run by hand", "schedule resumed", "schedule paused",
        "schedule changed", "schedule added",
    ]  # fmt: skip


def test_a_schedule_that_another_user_changed_since_is_kept_until_it_is_saved_again(
    app: TestApp, client: Browser
) -> None:
    client.post(NEW, **FORM)
    (one,) = schedules(app)
    url = f"/exports/schedules/{one.id}"

    def version(page: str) -> str:
        return page.split('name="version" value="')[1].split('"')[0]

    shown = {**FORM, "version": version(client.get(url).text)}
    client.post(f"{url}/pause")
    client.post(url, **{**shown, "at": "07:30"})
    refused = client.post(url, **{**shown, "name": "Back office"})
    assert refused.status_code == 409
    assert "another user changed this while you were editing" in text(refused.text)
    assert 'value="Back office"' in refused.text
    assert [(one.name, one.at) for one in schedules(app)] == [("Front desk", "07:30")]
    client.post(url, **{**shown, "name": "Back office", "version": version(refused.text)})
    assert [(one.name, one.at) for one in schedules(app)] == [("Back office", "06:00")]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({}, "Tuesday 1 December 2026, 06:00 (Europe/London), November 2026, calls-2026-11.xlsx"),
        (
            {"every": "week", "at": "07:30", "name": "Front desk", "form": "csv"},
            "Monday 16 November 2026, 07:30 (Europe/London), 9–15 November 2026, front-desk-2026-W46.csv",
        ),
        (
            {"every": "day", "zone": "Asia/Tokyo", "export": "cdr-details"},
            "Tuesday 10 November 2026, 06:00 (Asia/Tokyo), 9 November 2026,"
            " call-detail-records-2026-11-09.xlsx",
        ),
        (
            {"every": "hour", "at": "6", "zone": "Mars", "name": "…", "form": "exe", "export": "users"},
            "Tuesday 1 December 2026, 06:00 (Europe/London), current records, users-2026-11.xlsx",
        ),
    ],
)
def test_the_form_shows_the_next_delivery_of_its_values(
    shared_client: Browser, monkeypatch: pytest.MonkeyPatch, values: dict[str, str], shown: str
) -> None:
    monkeypatch.setattr(clock, "now", lambda: datetime(2026, 11, 9, 12, tzinfo=UTC))
    assert f"Next delivery: {shown} " in text(shared_client.get(NEW, params=values).text)


def test_a_schedule_keeps_zone_columns_and_headings_of_the_export_page(app: TestApp, client: Browser) -> None:
    page = unescape(client.get(f"{NEW}?export=cdrs&tz=Asia/Tokyo&headings=names&columns=calldate_local").text)
    assert 'name="zone" required maxlength="60" value="Asia/Tokyo"' in page
    assert '<option value="names" selected>API names</option>' in page
    assert 'value="calldate_local"' in page
    assert '<option value="words" selected>Words</option>' in client.get(NEW).text
    client.post(NEW, **FORM, headings="words")
    assert schedules(app)[0].args == {"headings": "words"}


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("name", "…", "letters or digits"),
        ("form", "exe", "form: choose one of"),
        ("at", "25:00", "hours and minutes"),
        ("zone", "Mars/Olympus", "is not a time zone. Use a name such as Europe/London."),
        ("place", "../../etc", "Invalid folder"),
        ("target", "email", "E-mail isn’t set up. An administrator can enter a mail server"),
        ("filter", "{", "filter"),
        ("wait_hours", "-1", "whole hours"),
    ],
)
def test_an_invalid_schedule_gets_400_and_stays_in_the_form(
    shared_app: TestApp, shared_client: Browser, field: str, value: str, why: str
) -> None:
    answer = shared_client.post(NEW, **{**FORM, field: value})
    assert answer.status_code == 400
    assert why in text(answer.text)
    assert f'value="{"…" if field == "name" else "Front desk"}"' in answer.text
    assert schedules(shared_app) == []


def test_a_schedule_replaces_the_days_of_a_view(app: TestApp, client: Browser) -> None:
    saved.save(
        app.app_db, saved.VIEWS, "calls", 1, "Sales", "direction=in&range=month", shared=True, pinned=False
    )
    page = client.get(NEW).text
    (query,) = re.findall(r'<option value="([^"]*)">Sales</option>', page)
    assert unescape(query) == "direction=in&range=all"
    sales = client.get(f"{NEW}?view=range%3Dweek%26direction%3Din").text
    assert (
        re.search(r'<option value="direction=in&amp;range=all" selected>(.*?)</option>', sales)[1] == "Sales"
    )
    client.post(NEW, **FORM, view="outcome=missed&from=2026-01-01&to=2026-01-02")
    assert schedules(app)[0].args["view"] == "outcome=missed&range=all"


def test_a_new_schedule_has_the_view_and_columns_of_the_preview(app: TestApp, client: Browser) -> None:
    preview = "/export/call-history?view=direction%3Din%26range%3Dweek&columns=id&columns=party_name"
    assert 'formaction="/exports/schedules/new"' in client.get(preview).text
    page = unescape(client.get(preview.replace("/export/call-history?", f"{NEW}?export=call-history&")).text)
    assert 'name="columns" value="id,party_name" checked> Only these columns: ID, Name<' in page
    assert '<option value="direction=in&range=all" selected>Other filter: Inbound</option>' in page


def read_form(page: str) -> dict[str, str]:
    """Return the values that the form of a schedule sends unchanged."""
    form = page[page.index('<form id="schedule"') :]
    fields = {}
    for tag in re.findall(r"<input[^>]*>", form[: form.index("</form>")]):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if attributes.get("type") != "checkbox" or " checked" in tag:
            fields[attributes["name"]] = unescape(attributes.get("value", ""))
    for name, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        first = re.search(r'<option value="([^"]*)"', options)
        value = (chosen[2] if chosen[1] is None else chosen[1]) if chosen else first[1] if first else ""
        fields[name] = unescape(value)
    return fields


def test_a_filter_that_no_view_expresses_is_kept_in_words_until_it_is_removed(
    app: TestApp, client: Browser
) -> None:
    app.put("users", {"id": 7, "first_name": "Ann", "last_name": "Archer"})
    condition = '[{"property":"billsec","operator":"gte","value":60}]'
    view = "person=7&charged=1&range=all"
    args = {"view": view, "filter": condition, "sort": "calldate", "dir": "DESC", "columns": "id,dst"}
    client.post(NEW, **{**FORM, **args, "export": "cdr-details"}, bom="1", separator=";", headings="words")
    (one,) = schedules(app)
    stored = {**args, "bom": "1", "separator": ";", "headings": "words"}
    assert one.args == stored
    url = f"/exports/schedules/{one.id}"
    page = client.get(url).text
    assert "(JSON" not in page
    assert "Other filter: Connected time ≥ 60" in text(page)
    assert "Other filter: Ann Archer, with a cost" in text(page)
    client.post(url, **read_form(page))
    assert schedules(app)[0].args == stored
    kept = read_form(client.get(url).text)
    client.post(url, **{name: value for name, value in kept.items() if name not in ("filter", "columns")})
    assert schedules(app)[0].args == {k: v for k, v in stored.items() if k not in ("filter", "columns")}
    kept = read_form(client.get(url).text)
    client.post(url, **{**kept, "columns": "id", "view": "", "set": "For the accountant"})
    assert schedules(app)[0].args == {
        "set": "For the accountant", "sort": "calldate", "dir": "DESC", "bom": "1", "separator": ";",
        "headings": "words",
    }  # fmt: skip


def test_a_header_and_a_url_query_are_not_shown_and_not_sent_to_another_url(
    app: TestApp, client: Browser
) -> None:
    put = {**FORM, "target": "put", "place": "https://files.example.com/in?sig=canary-one"}
    client.post(NEW, **put, secret="Bearer canary-two")
    where = f"/exports/schedules/{schedules(app)[0].id}"
    kept = {**put, "place": "https://files.example.com/in?…"}
    for page in (client.get(where).text, client.get("/exports").text, client.get("/privacy/audit").text):
        assert "canary" not in page
    assert 'value="https://files.example.com/in?…"' in client.get(where).text
    client.post(where, **kept)
    (one,) = schedules(app)
    assert (one.place, one.secret) == (put["place"], "Bearer canary-two")
    for other in ("https://other.example.com/in?…", "https://other.example.com/in"):
        assert client.post(where, **{**kept, "place": other}).status_code == 400
    assert schedules(app)[0].place == put["place"]
    client.post(where, **kept, no_secret="1")
    assert schedules(app)[0].secret == ""


def test_schedules_need_the_right_export_and_are_hidden_from_agents(app: TestApp, client: Browser) -> None:
    client.post(NEW, **FORM)
    token = app.make_token(Member("agent@example.com", "agent"))
    agent = Browser(app.url, token)
    people.change(app.app_db, "agent@example.com", rights={"export": True})
    page = agent.get("/exports")
    assert page.status_code == 200
    assert "Front desk" not in page.text
    for path in (NEW, "/exports/schedules/1"):
        assert agent.get(path).status_code == agent.post(path, **FORM).status_code == 403
    supervisor = Browser(app.url, app.make_token(Member("boss@example.com", "supervisor")))
    assert supervisor.get("/exports/schedules/1").status_code == 200
    people.change(app.app_db, "boss@example.com", rights={"export": False})
    assert supervisor.get("/exports/schedules/1").status_code == 403
    assert len(schedules(app)) == 1


def test_the_page_shows_the_result_of_each_attempt(app: TestApp, client: Browser) -> None:
    client.post(NEW, **FORM)
    (one,) = schedules(app)
    day = str(clock.now().astimezone(ZoneInfo("Europe/London")).date() - timedelta(days=1))
    jobs.request_redelivery(app.app_db, one.id, day)
    with app.app_db.read() as connection:
        (run,) = jobs.list_open_runs(connection, one.id)
    jobs.mark_running(app.app_db, run, clock.utc_text(clock.unix() + 60))
    failed = run.make_attempt(clock.now(), "failed", "<the disk is full>")
    jobs.mark_failed(app.app_db, run, failed, holds_all=True)
    for path in ("/exports", f"/exports/schedules/{one.id}"):
        page = text(client.get(path).text)
        assert "failing" in page
        assert "<the disk is full>" in page
    delivered = run.make_attempt(clock.now(), "delivered", "written to a.csv", rows=1234, size=1234)
    jobs.mark_delivered(app.app_db, run, delivered)
    page = text(client.get(f"/exports/schedules/{one.id}").text)
    assert "1 234" in page
    assert "Not delivered yet" not in page


# --- export jobs -----------------------------------------------------------------------------------------


def test_the_page_shows_progress_of_own_export_jobs_only(
    app: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = people.create(app.app_db, "ann@example.com", "supervisor", password_hash="x")
    client = Browser(app.url, sessions.create(app.app_db, ann.id))
    other = app.log_in()
    one = add_download(app.app_db, ann)
    jobs.mark_running(app.app_db, one, None)
    monkeypatch.setattr(app.context.export_runner, "rows_written", lambda run: {one.id: 21000}[run.id])
    page = client.get("/exports")
    assert page.headers["Refresh"] == "2"
    assert "being prepared: 21 000 of 60 000" in text(page.text)
    page = other.get("/exports")
    assert "being prepared" not in page.text
    assert "Refresh" not in page.headers
    assert other.post(f"/exports/prepared/{one.id}/remove").status_code == 404
    client.post(f"/exports/prepared/{one.id}/remove")
    assert "cancelled" in text(client.get("/exports").text)
    with app.app_db.read() as connection:
        assert [run.state for run in jobs.list_downloads(connection)] == ["cancelled"]


def test_a_large_export_of_calls_is_prepared_in_the_background(
    app: TestApp, client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "xlsx", replace(FORMATS["xlsx"], background_above=2))
    for number in range(3):
        app.call(number + 1, clock.utc_text(clock.unix() - 600 - number))
    (excel,) = re.findall(
        r'href="(/exports/call-history\.xlsx[^"]*)"', client.get("/calls?direction=in&range=all").text
    )
    shown = client.get(unescape(excel))
    assert shown.url.endswith("/exports")
    assert "Calls Excel all time, Inbound" in text(shown.text)
