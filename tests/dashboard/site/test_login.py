"""Login, sessions, setup links and the login throttle."""

from __future__ import annotations

import logging
import re

import pytest

from integration.access import audit, passwords, people, sessions, setup_links
from integration.core import clock
from tests.support.application import TestApp
from tests.support.applications.login_site import PASSWORD, HiddenFields, Visitor, add_with_password
from tests.support.busy_hashing import busy_hashing
from tests.support.clock import Clock
from tests.support.people import ALICE, BOB, ERIN


def test_a_login_redirects_to_the_requested_page(visitor: Visitor) -> None:
    redirect = visitor.get("/calls?from=2026-01-01&to=2026-02-01")
    assert redirect.status_code == 302
    assert redirect.headers["Location"].startswith("/login?next=")
    form = HiddenFields(visitor.get(redirect.headers["Location"]).text).values
    answer = visitor.post("/login", {**form, "email": ERIN.email, "password": PASSWORD})
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/calls?from=2026-01-01&to=2026-02-01"
    assert f"Log out {ERIN.email}" in visitor.get("/").text
    assert visitor.get("/login").headers["Location"] == "/"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "\\\\evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "/login?next=/login",
        "/logout",
        "/" + "x" * 3000,
    ],
)
def test_next_does_not_redirect_to_other_sites(shared_app: TestApp, target: str) -> None:
    if people.find(shared_app.app_db, ERIN.email) is None:
        add_with_password(shared_app, ERIN)
    assert Visitor(shared_app.url).log_in(next=target).headers["Location"] == "/"


def test_the_session_cookie_is_httponly_and_samesite(visitor: Visitor) -> None:
    header = visitor.log_in().headers["Set-Cookie"]
    assert header.startswith("session=")
    assert "HttpOnly" in header
    assert "SameSite=Lax" in header
    assert "Path=/" in header
    assert "Domain" not in header
    assert "Secure" not in header


def test_a_login_over_plain_http_logs_one_warning_except_from_loopback(
    site: TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "integration.access.browser"):
        Visitor(site.url).log_in()
        assert not caplog.records
        for _ in range(2):
            proxied = Visitor(site.url)
            proxied.http.headers["X-Forwarded-For"] = "192.0.2.7"
            proxied.log_in()
    (record,) = [record for record in caplog.records if record.name == "integration.access.browser"]
    assert "plain HTTP" in record.message


def test_a_login_replaces_the_token_of_the_browser(site: TestApp, visitor: Visitor) -> None:
    visitor.get("/login")
    planted = visitor.cookie
    visitor.log_in()
    first = visitor.cookie
    assert planted is not None
    assert first not in (None, planted)
    assert sessions.find(site.app_db, planted) is None
    form = {"csrf_token": visitor.csrf_token, "email": ERIN.email, "password": PASSWORD}
    assert visitor.post("/login", form).status_code == 303
    assert visitor.cookie != first
    assert sessions.find(site.app_db, first or "") is None


def test_logout_ends_the_session_and_removes_the_cookie(site: TestApp, logged_in_visitor: Visitor) -> None:
    token = logged_in_visitor.cookie
    answer = logged_in_visitor.post("/logout", {"csrf_token": logged_in_visitor.csrf_token})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert logged_in_visitor.cookie is None
    thief = Visitor(site.url)
    thief.http.cookies.set("session", token or "")
    assert thief.get("/").status_code == 302


def test_a_session_ends_when_idle_and_a_week_after_login(site: TestApp, frozen_clock: Clock) -> None:
    browser = Visitor(site.url)
    browser.log_in()
    frozen_clock.advance(sessions.IDLE_SECONDS - 60)
    assert browser.get("/").status_code == 200
    site.app_db.write(lambda tx: None)
    frozen_clock.advance(sessions.IDLE_SECONDS + 1)
    assert browser.get("/").status_code == 302
    browser.log_in()
    for _ in range(int(sessions.MAX_AGE_SECONDS // 36000)):
        frozen_clock.advance(36000)
        assert browser.get("/").status_code == 200
        site.app_db.write(lambda tx: None)
    frozen_clock.advance(36000)
    assert browser.get("/").status_code == 302
    assert "You were logged out after 7 days." in browser.get("/login").text


def test_the_login_page_states_why_a_session_ended_if_that_is_stored(
    site: TestApp, frozen_clock: Clock
) -> None:
    def read_notice(browser: Visitor) -> str:
        path = browser.get("/calls").headers["Location"]
        assert path == "/login?next=%2Fcalls"
        found = re.search(r'<p class="notice" role="status">(.*?)</p>', browser.get(path).text)
        return found[1] if found else ""

    idle, used, revoked, own, changed = (Visitor(site.url) for _ in range(5))
    assert read_notice(idle) == ""
    for browser in (idle, used, revoked, own, changed):
        assert browser.log_in().status_code == 303
    administrator = site.log_in(ALICE)
    person = people.find(site.app_db, ERIN.email)
    assert person is not None
    newest_first = sessions.list_of_person(site.app_db, person.id)
    administrator.post(f"/settings/people/{person.id}/log-out", session=str(newest_first[2].id))
    assert read_notice(revoked) == "You were logged out by an administrator."
    sessions.revoke(site.app_db, newest_first[1].id)
    assert read_notice(own) == ""
    assert "You were logged out." in own.get("/login?ended&next=%2Fcalls").text
    frozen_clock.advance(sessions.IDLE_SECONDS - 60)
    assert used.get("/calls").status_code == 200
    site.app_db.write(lambda tx: None)
    frozen_clock.advance(60)
    assert read_notice(idle) == "You were logged out after 12 hours without use."
    people.set_password(site.app_db, ERIN.email, passwords.hash_password(PASSWORD))
    assert read_notice(used) == ""
    people.remove(site.app_db, ERIN.email)
    assert read_notice(changed) == ""

    # Reasons are deleted at the first login after the time that a session can last.
    frozen_clock.advance(sessions.MAX_AGE_SECONDS + 1)
    site.log_in(ALICE)
    assert read_notice(revoked) == ""
    with site.app_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM sessions_ended_by_admin").fetchone()[0] == 0


def test_a_changed_role_or_right_applies_at_once(site: TestApp, logged_in_visitor: Visitor) -> None:
    assert logged_in_visitor.get("/exports/cdrs.csv").status_code == 403
    people.change(site.app_db, ERIN.email, rights={"export": True})
    assert logged_in_visitor.get("/exports/cdrs.csv").status_code == 200
    assert logged_in_visitor.get("/settings/people").status_code == 403
    people.change(site.app_db, ERIN.email, role="admin")
    assert logged_in_visitor.get("/settings/people").status_code == 200


def test_an_unknown_email_gets_the_response_of_a_wrong_password(site: TestApp) -> None:
    site.add(BOB)
    browser = Visitor(site.url)
    answers = [
        browser.log_in(email, "a wrong password")
        for email in (ERIN.email, BOB.email, "nobody@example.com", "", "x" * 500, "\x00'\"<")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    ignored = ("Date",)
    assert (
        len({tuple((k, v) for k, v in answer.headers.items() if k not in ignored) for answer in answers}) == 1
    )


def test_a_login_after_ten_failures_in_a_minute_gets_429(site: TestApp, frozen_clock: Clock) -> None:
    known, unknown = Visitor(site.url), Visitor(site.url)
    for session, email in ((known, ERIN.email), (unknown, "nobody@example.com")):
        site.app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
        statuses = [session.log_in(email, "wrong password").status_code for _ in range(11)]
        assert statuses == [401] * 10 + [429]
    site.app_db.write(lambda tx: tx.execute("DELETE FROM attempts"))
    for _ in range(10):
        known.log_in(password="wrong password")
    refused = known.log_in()
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    frozen_clock.advance(61)
    assert known.log_in().status_code == 303


def test_a_login_refused_under_load_is_not_counted(site: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.001)
    browser = Visitor(site.url)
    with busy_hashing(monkeypatch):
        statuses = [browser.log_in().status_code for _ in range(12)]
    assert statuses == [503] * 12
    assert browser.log_in().status_code == 303


def test_the_audit_log_has_logins_without_the_entered_text(site: TestApp) -> None:
    browser = Visitor(site.url)
    browser.log_in("my-password-in-the-wrong-field", PASSWORD)
    browser.log_in(password="wrong password")
    browser.log_in()
    entries = audit.list_newest(site.app_db)
    assert [(entry.who, entry.what, entry.result) for entry in entries] == [
        (ERIN.email, "login", "done"),
        (ERIN.email, "login", "refused"),
        ("", "login", "refused"),
    ]
    assert {entry.address for entry in entries} == {"127.0.0.1"}
    kept = b"".join(path.read_bytes() for path in site.app_db.path.parent.glob("house.db*"))
    for canary in (b"my-password-in", PASSWORD.encode(), (browser.cookie or "").encode()):
        assert canary not in kept


def test_a_setup_link_sets_the_password_once_and_logs_in(site: TestApp) -> None:
    site.add(BOB)
    path = setup_links.create_link(site.app_db, BOB.email, site.url).removeprefix(site.url)
    browser = Visitor(site.url)
    page = browser.get(path)
    assert page.status_code == 200
    assert BOB.email in page.text
    assert browser.get(path).status_code == 200, "opening the link does not use it up"
    form = HiddenFields(page.text).values
    short = browser.post(path, {**form, "password": "short", "repeat": "short"})
    assert short.status_code == 400
    differ = browser.post(path, {**form, "password": PASSWORD, "repeat": PASSWORD + "x"})
    assert differ.status_code == 400
    assert browser.get(f"{path}/").status_code == 200
    done = browser.post(f"{path}/", {**form, "password": PASSWORD, "repeat": PASSWORD})
    assert (done.status_code, done.headers["Location"]) == (303, "/")
    assert f"Log out {BOB.email}" in browser.get("/").text
    stranger = Visitor(site.url)
    form = HiddenFields(stranger.get("/login").text).values
    assert stranger.get(path).status_code == 404
    assert stranger.post(path, {**form, "password": PASSWORD + "2"}).status_code == 404
    assert stranger.log_in(BOB.email).status_code == 303


def test_the_first_run_link_creates_an_administrator(site: TestApp) -> None:
    site.app_db.write(lambda tx: tx.execute("DELETE FROM people"))
    (url,) = setup_links.create_first_run_link(site.app_db, [site.url])
    path = url.removeprefix(site.url)
    browser = Visitor(site.url)
    form = HiddenFields(browser.get(path).text).values
    refused = browser.post(path, {**form, "email": '"><script>', "password": PASSWORD, "repeat": PASSWORD})
    assert refused.status_code == 400
    assert "<script>" not in refused.text
    done = browser.post(path, {**form, "email": ERIN.email, "password": PASSWORD, "repeat": PASSWORD})
    assert done.status_code == 303
    page = browser.get("/settings/people")
    assert page.status_code == 200
    # The set-up counts as a login.
    with site.app_db.read() as connection:
        login_at = connection.execute("SELECT login_at FROM people").fetchone()[0]
    assert clock.utc_text(clock.unix() - 60) < login_at <= clock.utc_text()
    assert ">never<" not in page.text


def test_an_invalid_setup_link_gets_404(visitor: Visitor) -> None:
    for path in ("/setup/x", "/setup/" + "A" * 43, "/setup/%00", "/setup/%ed%a0%80"):
        assert visitor.get(path).status_code == 404
