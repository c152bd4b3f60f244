"""Role exports: files of calls, missed calls and CDRs, Reports, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner
from werkzeug.routing import Rule

from integration.access import people
from integration.cli.user import command
from integration.core import clock
from integration.exports.presets import PRESETS
from tests.cli.test_export import variables
from tests.dashboard.site.test_every_route import NO_LOGIN, list_rules, make_example
from tests.support.application import Browser, TestApp, running_app
from tests.support.people import Member

PAM = Member("pam@example.com", "exports")
OPEN = {
    *("/exports", "/export/<path:name>", "/export/<path:name>/sets"),
    *("/export/<path:name>/sets/<int:number>/remove", "/exports/prepared/<int:number>/remove"),
    *("/reports", "/reports/missed", "/reports/labels", "/reports/summary"),
}
"""Rules of pages that the role opens, besides its own login and the rules without a login."""
CANARY = "Canary"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("data")) as app:
        app.add(Member("alice@example.com", "admin"))
        app.put("users", {"id": 7, "first_name": "Ann", "last_name": "Archer"})
        app.put("sms", {"id": 1, "message": CANARY, "from": "447700900101", "created_at": clock.utc_text()})
        app.put("contacts", {"id": 1, "first_name": CANARY, "phone": "447700900102"})
        app.put("voicemessages", {"id": 1, "transcript": CANARY, "origtime": clock.utc_text()})
        app.call(1, clock.utc_text(clock.unix() - 3600), outcome="missed", recordings=1)
        app.leg(1)
        app.put("cdrs", {"id": 101, "live_id": 1, "calldate": clock.utc_text(clock.unix() - 3600)})
        app.put("monitors", {"id": 1, "live_id": 1, "transcript": CANARY, "timestamp": clock.utc_text()})
        yield app


@pytest.fixture
def pam(app: TestApp) -> Browser:
    people.change(app.app_db, app.add(PAM).email, role="exports", rights={"recordings": None})
    return app.log_in(PAM)


def is_open(rule: Rule) -> bool:
    path = str(rule)
    is_own_login = rule.endpoint.startswith(("profile.", "second_factor.", "login."))
    return path in OPEN | NO_LOGIN or is_own_login


@pytest.mark.exhaustive
def test_every_other_route_is_closed_with_every_method(app: TestApp, pam: Browser) -> None:
    token = app.make_token(PAM)
    closed = 0
    for rule in list_rules(app):
        for method in sorted((rule.methods or set()) - {"OPTIONS"}):
            if is_open(rule) and str(rule) not in ("/docs", "/openapi.json", "/metrics", "/readyz"):
                continue
            path = make_example(rule)
            if rule.endpoint.startswith("exports."):
                path = path.replace("/exports/cdrs.", "/exports/sms.")
            answer = requests.request(
                method, app.url + path, cookies={"session": token}, headers={"X-CSRF-Token": pam.csrf,
                "Accept": "text/html"}, allow_redirects=False, timeout=30, stream=True,
            )  # fmt: skip
            where = f"{method} {path}: {answer.status_code}"
            if path == "/" and method in ("GET", "HEAD"):
                assert answer.headers["Location"] == "/exports", where
            elif rule.endpoint.startswith(("facade.", "api.")):
                assert answer.status_code in (401, 403, 404), where
            elif str(rule).startswith("/exports/prepared/"):
                assert answer.status_code in (403, 404), where
            elif str(rule) in ("/metrics", "/readyz"):
                assert answer.status_code in (200, 403, 404, 503), where
            else:
                assert answer.status_code == 403, where
                closed += 1
            assert CANARY not in answer.text, where
    assert closed > 120


def test_pages_have_no_link_count_search_or_stream_of_closed_pages(app: TestApp, pam: Browser) -> None:
    for path in ("/", "/exports", "/export/call-history", "/export/missed", "/export/cdr-details",
                 "/export/cdrs", "/reports", "/reports/missed", "/reports/labels", "/reports/summary",
                 "/profile"):  # fmt: skip
        page = pam.get(path)
        assert page.status_code == 200, path
        assert CANARY not in page.text
        assert 'data-change=""' in page.text
        assert 'role="search"' not in page.text
        assert 'class="badge' not in page.text
        for target in {unescape(url) for url in re.findall(r'<a\b[^>]*href="([^"]*)"', page.text)}:
            answer = pam.get(target) if target.startswith("/") else page
            assert answer.status_code == 200, f"{target} on {path}"
    tabs = re.findall(r'class="tab" href="([^"]+)"', pam.get("/exports").text)
    assert tabs == ["/exports", "/reports"]
    boss = app.log_in(Member("boss@example.com", "supervisor"))
    assert 'href="/calls?' in boss.get("/reports").text


def test_only_calls_missed_calls_and_cdrs_are_exported(app: TestApp, pam: Browser) -> None:
    allowed = {"call-history", "missed", "cdr-details"}
    rows = re.findall(
        r'<th scope="row" class="nowrap"><a class="link" href="/export/([^"]+)"', pam.get("/exports").text
    )
    assert set(rows) == allowed
    for name in PRESETS:
        for path in (f"/exports/{name}.csv", f"/export/{name}"):
            answer = pam.get(path)
            assert answer.status_code == (200 if name in allowed else 403), path
    for name in ("sms", "contacts", "users", "monitors", "voicemessages", "ivrs", "queues", "chats"):
        assert pam.get(f"/exports/{name}.csv").status_code == 403, name
    assert pam.get("/exports/cdrs.csv").headers["X-Export-Rows"] == "1"
    assert pam.get("/exports/recordings.zip").status_code == 403
    people.change(app.app_db, PAM.email, rights={"recordings": True})
    for name in ("recordings.csv", "voicemail.csv", "recordings.zip"):
        assert pam.get(f"/exports/{name}").status_code == 200, name
    assert pam.get("/recordings").status_code == 403
    assert pam.get("/exports/notes.csv").status_code == 403
    people.change(app.app_db, PAM.email, rights={"recordings": None, "other_exports": True})
    page = pam.get("/exports").text
    for name in ("sms", "contacts", "users", "routingrules", "notes", "messages"):
        assert f'href="/export/{name}' in page, name
        assert pam.get(f"/export/{name}").status_code == 200, name
        assert pam.get(f"/exports/{name}.csv").status_code == 200, name
    assert CANARY in pam.get("/exports/sms.csv").text
    assert "mobile" not in pam.get("/exports/users.csv").text
    assert pam.get("/exports/recordings.csv").status_code == 403
    assert pam.get("/messages").status_code == pam.get("/contacts").status_code == 403
    people.change(app.app_db, PAM.email, rights={"export": False})
    assert pam.get("/exports/call-history.csv").status_code == 403
    assert pam.get("/exports").status_code == 403
    people.change(app.app_db, PAM.email, rights={"export": None, "other_exports": None})


def test_own_files_are_listed_and_own_column_sets_saved(app: TestApp, pam: Browser) -> None:
    page = pam.post("/export/cdrs/sets", columns="dst", label="books", shared="1").text
    assert "books" in page
    assert "books" not in app.log_in(Member("boss@example.com", "supervisor")).get("/export/cdrs").text
    page = pam.get("/exports").text
    assert "Your files" in page
    assert "schedule" not in page.casefold()
    assert pam.post("/exports/schedules/new", export="call-history").status_code == 403


def test_the_role_is_invited_on_the_page_and_by_the_command(
    app: TestApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = app.log_in()
    assert '<option value="exports">Exports only</option>' in admin.get("/settings").text
    admin.post("/settings/people", email="books@example.com", role="exports")
    books = people.find(app.app_db, "books@example.com")
    assert books is not None
    assert (books.role, books.rights) == ("exports", {"export"})
    assert '<option value="exports" selected>' in admin.get(f"/settings/people/{books.id}").text
    arguments = ("add", "dave@example.com", "--role", "exports")
    result = CliRunner().invoke(command, arguments, env=variables(tmp_path))
    assert result.exit_code == 0, result.output
    listed = CliRunner().invoke(command, ("list",), env=variables(tmp_path)).output
    assert re.search(r"dave@example.com +exports +export ", listed)


def test_a_required_second_factor_is_set_up_first(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", dashboard__second_factor='["exports"]') as app:
        viewer = app.log_in(Member("dave@example.com", "viewer"))
        assert viewer.get("/").status_code == 200
        assert "/login/second-factor" in app.log_in(PAM).get("/exports").url
        assert app.log_in(PAM).get("/exports/cdrs.csv").url.endswith("/login")


def test_an_older_version_reads_a_viewer_with_every_right_denied(app: TestApp, pam: Browser) -> None:
    people.change(app.app_db, PAM.email, rights={"recordings": True})
    with app.app_db.read() as connection:
        row = connection.execute(
            "SELECT role, rights, exports_rights FROM people WHERE email = ?", (PAM.email,)
        ).fetchone()
    assert tuple(row) == (
        "viewer",
        '{"export": false, "other_exports": false, "recordings": false}',
        '{"recordings": true}',
    )
    person = people.change(app.app_db, PAM.email, role="agent")
    assert (person.role, person.rights) == ("agent", {"recordings"})
    with app.app_db.read() as connection:
        row = connection.execute("SELECT exports_rights FROM people WHERE email = ?", (PAM.email,)).fetchone()
    assert row[0] is None


def test_agents_see_own_does_not_limit_the_exports(tmp_path: Path) -> None:
    with running_app(tmp_path / "data", dashboard__agents_see="own") as app:
        app.call(1, "2026-07-01 09:15:00", user_id=7)
        assert app.log_in(PAM).get("/exports/call-history.csv").headers["X-Export-Rows"] == "1"
