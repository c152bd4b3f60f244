"""Own password and sessions, and confirmation of sensitive changes."""

from __future__ import annotations

import pytest

from integration.access import audit, keys, people
from tests.support.application import TestApp
from tests.support.applications.login_site import PASSWORD, Visitor, add_with_password
from tests.support.applications.second_factor import read_csrf, set_up_second_factor
from tests.support.clock import Clock
from tests.support.people import ALICE, ERIN

NEW_PASSWORD = "meridian otter violin"


def change_password(visitor: Visitor, current: str, new: str, repeat: str | None = None) -> tuple[int, str]:
    form = {"current": current, "password": new, "repeat": new if repeat is None else repeat}
    answer = visitor.post(
        "/profile/password", {"csrf_token": read_csrf(visitor.get("/profile").text), **form}
    )
    return answer.status_code, answer.text


def test_a_user_changes_the_own_password(site: TestApp, logged_in_visitor: Visitor) -> None:
    other = Visitor(site.url)
    other.log_in()
    assert change_password(logged_in_visitor, PASSWORD, NEW_PASSWORD)[0] == 303
    assert "Password changed" in logged_in_visitor.get("/profile").text
    assert other.get("/").headers["Location"] == "/login", "the password ends other sessions"
    assert Visitor(site.url).log_in().status_code == 401
    assert Visitor(site.url).log_in(password=NEW_PASSWORD).status_code == 303
    entries = [(entry.who, entry.what, entry.about) for entry in audit.list_newest(site.app_db)]
    assert (ERIN.email, "password changed", ERIN.email) in entries


@pytest.mark.parametrize(
    ("current", "new", "repeat", "status", "message"),
    [
        ("a wrong password", NEW_PASSWORD, None, 403, "The password is wrong."),
        (PASSWORD, NEW_PASSWORD, "another one", 400, "The two passwords differ."),
        (PASSWORD, "password123", None, 400, "easy to guess"),
        (PASSWORD, ERIN.email, None, 400, "address, name or company"),
        (PASSWORD, "short", None, 400, "at least 10"),
    ],
)
def test_a_refused_password_changes_nothing(
    shared_app: TestApp, current: str, new: str, repeat: str | None, status: int, message: str
) -> None:
    add_with_password(shared_app, ERIN)
    visitor = Visitor(shared_app.url)
    visitor.log_in()
    answer = change_password(visitor, current, new, repeat)
    assert (answer[0], message in answer[1]) == (status, True)
    assert people.authenticate(shared_app.app_db, ERIN.email, PASSWORD) is not None


def test_the_name_of_the_linked_user_is_no_password(shared_app: TestApp) -> None:
    shared_app.insert("users", id=100, first_name="Wilhelmina", last_name="Featherstone")
    people.change(shared_app.app_db, add_with_password(shared_app, ERIN).email, platform_user_id=100)
    visitor = Visitor(shared_app.url)
    visitor.log_in()
    assert change_password(visitor, PASSWORD, "featherstone77")[0] == 400


def test_guesses_of_the_current_password_are_limited(
    site: TestApp, logged_in_visitor: Visitor, frozen_clock: Clock
) -> None:
    answers = [change_password(logged_in_visitor, f"guess {n}", NEW_PASSWORD) for n in range(10)]
    assert {status for status, _ in answers} == {403}
    status, text = change_password(logged_in_visitor, PASSWORD, NEW_PASSWORD)
    assert (status, "Too many attempts" in text) == (403, True)


def test_a_user_sees_and_ends_the_own_sessions(site: TestApp, logged_in_visitor: Visitor) -> None:
    other = Visitor(site.url)
    other.http.headers["User-Agent"] = (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
    )
    other.log_in()
    page = logged_in_visitor.get("/profile").text
    assert "Firefox on Windows" in page
    assert "127.0.0.1" in page
    (path,) = {part.split('"')[0] for part in page.split('action="')[1:] if "/sessions/" in part[:30]} - {
        "/profile/sessions/end-others"
    }
    token = read_csrf(page)
    assert logged_in_visitor.post(path, {"csrf_token": token}).status_code == 303
    assert other.get("/").status_code == 302
    assert logged_in_visitor.post(path, {"csrf_token": token}).status_code == 404


def test_a_user_ends_all_other_sessions_but_not_those_of_others(
    site: TestApp, logged_in_visitor: Visitor
) -> None:
    add_with_password(site, ALICE)
    alice, other = Visitor(site.url), Visitor(site.url)
    alice.log_in(ALICE.email)
    other.log_in()
    with site.app_db.read() as connection:
        (number,) = connection.execute("SELECT id FROM sessions WHERE person_id = 2").fetchone()
    token = read_csrf(logged_in_visitor.get("/profile").text)
    assert logged_in_visitor.post(f"/profile/sessions/{number}/end", {"csrf_token": token}).status_code == 404
    assert logged_in_visitor.post("/profile/sessions/end-others", {"csrf_token": token}).status_code == 303
    assert [who.get("/").status_code for who in (logged_in_visitor, other, alice)] == [200, 302, 200]


# --- confirmation ----------------------------------------------------------------------------------------

KEY_FORM = {"name": "crm", "scope": "read"}


@pytest.fixture
def admin(site: TestApp, frozen_clock: Clock) -> Visitor:
    """Alice, whose login is too old for sensitive changes."""
    add_with_password(site, ALICE)
    visitor = Visitor(site.url)
    visitor.log_in(ALICE.email)
    frozen_clock.advance(601)
    return visitor


def test_a_recent_login_needs_no_confirmation(site: TestApp, admin: Visitor) -> None:
    admin = Visitor(site.url)
    admin.log_in(ALICE.email)
    answer = admin.post("/settings/keys", {"csrf_token": admin.csrf_token, **KEY_FORM})
    assert answer.status_code == 303
    assert [key.name for key in keys.list_all(site.app_db)] == ["crm"]


def test_a_key_is_added_after_the_password_only(site: TestApp, admin: Visitor, frozen_clock: Clock) -> None:
    form = {"csrf_token": admin.csrf_token, **KEY_FORM, "collections": 'cdrs "<'}
    page = admin.post("/settings/keys", form)
    assert (page.status_code, "Confirm that it’s you" in page.text) == (403, True)
    assert 'name="collections" value="cdrs &#34;&lt;"' in page.text, "the form is sent a second time"
    assert 'action="/settings/keys"' in page.text
    assert keys.list_all(site.app_db) == []
    form["collections"] = "cdrs"
    wrong = admin.post("/settings/keys", {**form, "confirmation": "a wrong password"})
    assert (wrong.status_code, "The password is wrong." in wrong.text) == (403, True)
    assert keys.list_all(site.app_db) == []
    assert admin.post("/settings/keys", {**form, "confirmation": PASSWORD}).status_code == 303
    assert [key.name for key in keys.list_all(site.app_db)] == ["crm"]
    assert admin.post("/settings/keys", {**form, "name": "second"}).status_code == 303, (
        "confirmed for 10 minutes"
    )
    frozen_clock.advance(601)
    assert admin.post("/settings/keys", {**form, "name": "third"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/settings/keys",
        "/settings/keys/9000001/revoke",
        "/settings/screens",
        "/settings/screens/1/revoke",
        "/settings/connection/webhook/rotate",
        "/settings/connection/webhook/forget",
        "/settings/outgoing/1/rotate",
        "/settings/people",
        "/settings/people/1",
        "/settings/people/1/reset",
        "/settings/people/1/remove",
        "/settings/people/1/second-factor/remove",
        "/profile/second-factor/remove",
        "/profile/second-factor/codes",
        "/login/second-factor/start",
        "/system/alerts",
        "/exports/schedules/new",
        "/privacy/erase",
        "/privacy/holds/1/release",
    ],
)
def test_a_change_of_keys_people_and_secrets_needs_a_confirmation(shared_app: TestApp, path: str) -> None:
    from integration.access import sessions

    shared_app.clock.freeze(1_790_000_000.0)
    visitor = Visitor(shared_app.url)
    token = shared_app.make_token(ALICE)
    visitor.http.cookies.set("session", token)
    shared_app.clock.advance(601)
    form = {"csrf_token": sessions.derive_csrf_token(token), "secret": "Bearer x"}
    answer = visitor.post(path, form, headers={"Accept": "text/html"})
    assert (answer.status_code, 'name="confirmation"' in answer.text) == (403, True)
    script = visitor.post(path, form, headers={"Accept": "application/json"})
    assert (script.status_code, "Confirm" in script.json()["message"]) == (403, True)


def test_a_code_of_the_second_factor_confirms_too(site: TestApp, admin: Visitor, frozen_clock: Clock) -> None:
    admin = Visitor(site.url)
    admin.log_in(ALICE.email)
    authenticator, _ = set_up_second_factor(admin, frozen_clock)
    frozen_clock.advance(601)
    form = {"csrf_token": admin.csrf_token, **KEY_FORM}
    assert admin.post("/settings/keys", {**form, "confirmation": "123456"}).status_code == 403
    assert admin.post("/settings/keys", {**form, "confirmation": authenticator.code()}).status_code == 303
