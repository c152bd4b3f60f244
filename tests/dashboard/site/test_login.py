from __future__ import annotations

import logging

import pytest

from integration.access import audit, passwords, people, sessions, setup_links
from tests.support.applications.login_site import GOOD, Browser, Fields, Site
from tests.support.busy_hashing import busy_hashing
from tests.support.clock import Clock


def test_a_login_leads_to_the_page_that_was_asked_for(visitor: Browser) -> None:
    asked = visitor.get("/exports/cdrs.csv?from=2026-01-01&to=2026-02-01")
    assert asked.status_code == 302
    assert asked.headers["Location"].startswith("/login?next=")
    form = Fields(visitor.get(asked.headers["Location"]).text).values
    answer = visitor.post("/login", {**form, "email": "ann@example.com", "password": GOOD})
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/exports/cdrs.csv?from=2026-01-01&to=2026-02-01"
    assert visitor.get("/").text == "hello ann@example.com"
    assert visitor.get("/login").headers["Location"] == "/"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "evil",
        "/login?next=/login",
        "/logout",
        "/setup/x",
        "/" + "x" * 3000,
    ],
)
def test_next_never_leads_elsewhere(visitor: Browser, target: str) -> None:
    assert visitor.log_in(next=target).headers["Location"] == "/"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(visitor: Browser) -> None:
    header = visitor.log_in().headers["Set-Cookie"]
    assert header.startswith("session=")
    assert "HttpOnly" in header
    assert "SameSite=Lax" in header
    assert "Path=/" in header
    assert "Domain" not in header
    assert "Secure" not in header


def test_a_login_over_plain_http_is_warned_of_once_unless_this_machine_asks_for_itself(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "integration.access.browser"):
        site.browser().log_in()
        assert not caplog.records
        for _ in range(2):
            proxied = site.browser()
            proxied.http.headers["X-Forwarded-For"] = "192.0.2.7"
            proxied.log_in()
    (record,) = caplog.records
    assert "plain HTTP" in record.message


def test_login_rotates_what_the_browser_carries(site: Site, visitor: Browser) -> None:
    visitor.get("/login")
    planted = visitor.cookie
    visitor.log_in()
    first = visitor.cookie
    assert planted is not None
    assert first not in (None, planted)
    assert sessions.find(site.app_db, planted) is None
    form = {"csrf_token": visitor.token, "email": "ann@example.com", "password": GOOD}
    assert visitor.post("/login", form).status_code == 303
    assert visitor.cookie != first
    assert sessions.find(site.app_db, first or "") is None


def test_logout_ends_the_session_not_only_the_cookie(site: Site, inside: Browser) -> None:
    token = inside.cookie
    answer = inside.post("/logout", {"csrf_token": inside.token})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert inside.cookie is None
    thief = site.browser()
    thief.http.cookies.set("session", token or "")
    assert thief.get("/").status_code == 302


def test_logout_needs_a_post(inside: Browser) -> None:
    assert inside.get("/logout").status_code == 405
    assert inside.get("/").status_code == 200


def test_a_session_ends_idle_and_a_week_after_login(site: Site, frozen_clock: Clock) -> None:
    browser = site.browser()
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


def test_a_role_that_changes_counts_at_once(site: Site, inside: Browser) -> None:
    assert inside.get("/exports/cdrs.csv").status_code == 403
    people.set_right(site.app_db, "ann@example.com", "export", True)
    assert inside.get("/exports/cdrs.csv").status_code == 200
    assert inside.get("/people").status_code == 403
    people.set_role(site.app_db, "ann@example.com", "admin")
    assert inside.get("/people").status_code == 200


def test_an_unknown_address_is_answered_like_a_wrong_password(site: Site) -> None:
    people.create(site.app_db, "ben@example.com", "agent")
    browser = site.browser()
    answers = [
        browser.log_in(email, "a wrong password")
        for email in ("ann@example.com", "ben@example.com", "nobody@example.com", "", "x" * 500, "\x00'\"<")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    ignored = ("Date",)
    assert (
        len({tuple((k, v) for k, v in answer.headers.items() if k not in ignored) for answer in answers}) == 1
    )


def test_the_eleventh_guess_in_a_minute_is_not_looked_at(site: Site, frozen_clock: Clock) -> None:
    known, unknown = site.browser(), site.browser()
    for session, email in ((known, "ann@example.com"), (unknown, "nobody@example.com")):
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


def test_logging_in_again_and_again_is_no_guessing(site: Site, frozen_clock: Clock) -> None:
    assert {site.browser().log_in().status_code for _ in range(12)} == {303}


def test_a_busy_moment_is_no_guess(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.001)
    browser = site.browser()
    with busy_hashing(monkeypatch):
        statuses = [browser.log_in().status_code for _ in range(12)]
    assert statuses == [503] * 12
    assert browser.log_in().status_code == 303


def test_logins_are_in_the_audit_and_what_was_typed_is_not(site: Site) -> None:
    browser = site.browser()
    browser.log_in("my-password-in-the-wrong-field", GOOD)
    browser.log_in(password="wrong password")
    browser.log_in()
    entries = audit.list_newest(site.app_db)
    assert [(entry.who, entry.what, entry.result) for entry in entries] == [
        ("ann@example.com", "login", "done"),
        ("ann@example.com", "login", "refused"),
        ("", "login", "refused"),
    ]
    assert {entry.address for entry in entries} == {"127.0.0.1"}
    kept = b"".join(path.read_bytes() for path in site.app_db.path.parent.glob("house.db*"))
    for canary in (b"my-password-in", GOOD.encode(), (browser.cookie or "").encode()):
        assert canary not in kept


def test_a_set_up_link_sets_the_password_once_and_logs_in(site: Site) -> None:
    people.create(site.app_db, "ben@example.com", "viewer")
    path = setup_links.create_link(site.app_db, "ben@example.com", site.base).removeprefix(site.base)
    browser = site.browser()
    page = browser.get(path)
    assert page.status_code == 200
    assert "ben@example.com" in page.text
    assert browser.get(path).status_code == 200, "looking uses nothing up"
    form = Fields(page.text).values
    short = browser.post(path, {**form, "password": "short", "repeat": "short"})
    assert short.status_code == 400
    differ = browser.post(path, {**form, "password": GOOD, "repeat": GOOD + "x"})
    assert differ.status_code == 400
    done = browser.post(path, {**form, "password": GOOD, "repeat": GOOD})
    assert (done.status_code, done.headers["Location"]) == (303, "/")
    assert browser.get("/").text == "hello ben@example.com"
    stranger = site.browser()
    form = Fields(stranger.get("/login").text).values
    assert stranger.get(path).status_code == 404
    assert stranger.post(path, {**form, "password": GOOD + "2"}).status_code == 404
    assert stranger.log_in("ben@example.com").status_code == 303


def test_the_first_link_asks_who_you_are(site: Site) -> None:
    site.app_db.write(lambda tx: tx.execute("DELETE FROM people"))
    url = setup_links.create_first_run_link(site.app_db, site.base)
    assert url is not None
    path = url.removeprefix(site.base)
    browser = site.browser()
    form = Fields(browser.get(path).text).values
    refused = browser.post(path, {**form, "email": '"><script>', "password": GOOD, "repeat": GOOD})
    assert refused.status_code == 400
    assert "<script>" not in refused.text
    done = browser.post(path, {**form, "email": "ann@example.com", "password": GOOD, "repeat": GOOD})
    assert done.status_code == 303
    assert browser.get("/people").status_code == 200


def test_a_set_up_link_cannot_be_guessed_or_forged(visitor: Browser) -> None:
    for path in ("/setup/x", "/setup/" + "A" * 43, "/setup/%00", "/setup/%ed%a0%80"):
        assert visitor.get(path).status_code == 404
