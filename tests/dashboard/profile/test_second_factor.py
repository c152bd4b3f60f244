"""Second factor: set-up, login, recovery codes, required roles, removal."""

from __future__ import annotations

from typing import cast

import pytest

from integration.access import audit, people
from tests.support.application import TestApp
from tests.support.applications.login_site import Visitor, add_with_password
from tests.support.applications.second_factor import (
    AuthenticatorApp,
    enter_code,
    read_codes,
    read_csrf,
    set_up_second_factor,
)
from tests.support.clock import Clock
from tests.support.people import ALICE, ERIN


@pytest.fixture
def with_factor(
    site: TestApp, logged_in_visitor: Visitor, frozen_clock: Clock
) -> tuple[AuthenticatorApp, list[str]]:
    """Authenticator app and recovery codes of Erin."""
    return set_up_second_factor(logged_in_visitor, frozen_clock)


def log_in_with_password(site: TestApp) -> Visitor:
    visitor = Visitor(site.url)
    answer = visitor.log_in(next="/calls")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login/code?next=%2Fcalls")
    return visitor


def test_a_login_needs_password_and_code(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]]
) -> None:
    visitor = log_in_with_password(site)
    for path in ("/", "/calls", "/settings", "/profile", "/nowhere"):
        assert visitor.get(path).headers["Location"].startswith("/login/code"), path
    assert visitor.get("/login/second-factor").headers["Location"] == "/login/code"
    assert visitor.get("/exports/cdrs.csv").status_code == 401
    assert visitor.get("/live/stream", headers={"Accept": "text/event-stream"}).status_code == 401
    assert enter_code(visitor, "000000") == 401
    assert enter_code(visitor, with_factor[0].code()) == 303
    assert f"Log out {ERIN.email}" in visitor.get("/").text


def test_a_code_is_accepted_once(site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]]) -> None:
    code = with_factor[0].code()
    assert enter_code(log_in_with_password(site), code) == 303
    assert enter_code(log_in_with_password(site), code) == 401
    assert enter_code(log_in_with_password(site), with_factor[0].code(-1)) == 401, "an earlier step"
    assert enter_code(log_in_with_password(site), with_factor[0].code(1)) == 303


def test_codes_of_other_times_are_refused(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]], frozen_clock: Clock
) -> None:
    frozen_clock.advance(300)
    visitor = log_in_with_password(site)
    assert enter_code(visitor, with_factor[0].code(-2)) == 401
    assert enter_code(visitor, with_factor[0].code(2)) == 401
    assert enter_code(visitor, with_factor[0].code(-1)) == 303


def test_ten_wrong_codes_in_a_quarter_of_an_hour_are_the_limit(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]], frozen_clock: Clock
) -> None:
    visitor = log_in_with_password(site)
    assert [enter_code(visitor, f"00000{n}") for n in range(10)] == [401] * 10
    assert enter_code(visitor, with_factor[0].code()) == 429
    frozen_clock.advance(301)
    assert enter_code(log_in_with_password(site), with_factor[0].code()) == 429
    frozen_clock.advance(600)
    assert enter_code(log_in_with_password(site), with_factor[0].code()) == 303


def test_the_code_must_be_entered_within_ten_minutes(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]], frozen_clock: Clock
) -> None:
    visitor = log_in_with_password(site)
    frozen_clock.advance(601)
    assert visitor.get("/login/code").headers["Location"] == "/login"


def test_a_recovery_code_replaces_the_app_once(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]]
) -> None:
    codes = with_factor[1]
    assert len(set(codes)) == 10
    assert enter_code(log_in_with_password(site), codes[3].upper()) == 303
    assert enter_code(log_in_with_password(site), codes[3]) == 401
    visitor = log_in_with_password(site)
    assert enter_code(visitor, codes[4].replace("-", "")) == 303
    assert "8 recovery codes left" in visitor.get("/profile").text
    stored = b"".join(path.read_bytes() for path in site.app_db.path.parent.glob("house.db*"))
    assert not [code for code in codes if code.encode() in stored or code.replace("-", "").encode() in stored]


def test_new_recovery_codes_replace_the_old(
    site: TestApp, logged_in_visitor: Visitor, with_factor: tuple[AuthenticatorApp, list[str]]
) -> None:
    token = read_csrf(logged_in_visitor.get("/profile").text)
    path = "/profile/second-factor/codes"
    assert logged_in_visitor.post(path, {"csrf_token": token}).headers["Location"] == path
    page = logged_in_visitor.get(path)
    assert read_codes(logged_in_visitor.get(path).text) == []
    new_codes = read_codes(page.text)
    assert len(new_codes) == 10
    assert page.headers["Cache-Control"] == "no-store"
    assert enter_code(log_in_with_password(site), with_factor[1][0]) == 401
    assert enter_code(log_in_with_password(site), new_codes[0]) == 303


def test_the_set_up_ends_other_sessions_and_keeps_this_one(
    site: TestApp, logged_in_visitor: Visitor, frozen_clock: Clock
) -> None:
    other = Visitor(site.url)
    other.log_in()
    set_up_second_factor(logged_in_visitor, frozen_clock)
    assert logged_in_visitor.get("/calls").status_code == 200
    assert other.get("/calls").headers["Location"].startswith("/login?")


def test_the_set_up_needs_a_code_of_the_shown_secret(site: TestApp, logged_in_visitor: Visitor) -> None:
    token = read_csrf(logged_in_visitor.get("/login/second-factor").text)
    assert logged_in_visitor.get("/login/second-factor").text.count("<img") == 0, "a GET creates no secret"
    logged_in_visitor.post("/login/second-factor/start", {"csrf_token": token})
    page = logged_in_visitor.get("/login/second-factor").text
    assert 'src="data:image/svg+xml' in page
    wrong = logged_in_visitor.post("/login/second-factor", {"csrf_token": token, "code": "123456"})
    assert wrong.status_code == 400
    assert Visitor(site.url).log_in().headers["Location"] == "/", "not in force before the first code"


@pytest.fixture
def strict_site(settings: dict[str, str], request: pytest.FixtureRequest) -> TestApp:
    """The product with Erin, whose role must have a second factor."""
    settings["dashboard__second_factor"] = "agent,admin"
    return cast(TestApp, request.getfixturevalue("site"))


def test_a_role_that_must_have_a_factor_reaches_only_the_set_up(
    strict_site: TestApp, frozen_clock: Clock
) -> None:
    visitor = Visitor(strict_site.url)
    assert visitor.log_in(next="/calls").status_code == 303
    for path in ("/", "/calls", "/settings", "/profile", "/account"):
        assert visitor.get(path).headers["Location"].startswith("/login/second-factor"), path
    token = read_csrf(visitor.get("/login/second-factor").text)
    assert visitor.post("/profile/password", {"csrf_token": token}).status_code == 401
    assert visitor.get("/exports/cdrs.csv").status_code == 401
    assert visitor.get("/live/stream", headers={"Accept": "text/event-stream"}).status_code == 401
    assert ERIN.email not in visitor.get("/login/second-factor").text.replace("%40", "@").split("<img")[0]
    set_up_second_factor(visitor, frozen_clock)
    assert visitor.get("/calls").status_code == 200


def test_a_required_factor_applies_to_open_sessions_and_changed_roles(strict_site: TestApp) -> None:
    people.change(strict_site.app_db, ERIN.email, role="viewer")
    visitor = Visitor(strict_site.url)
    visitor.log_in()
    assert visitor.get("/calls").status_code == 200
    people.change(strict_site.app_db, ERIN.email, role="agent")
    assert visitor.get("/calls").headers["Location"].startswith("/login/second-factor")


def test_a_new_password_does_not_bypass_the_factor(
    site: TestApp, logged_in_visitor: Visitor, with_factor: tuple[AuthenticatorApp, list[str]]
) -> None:
    from integration.access import setup_links

    path = setup_links.create_link(site.app_db, ERIN.email, site.url).removeprefix(site.url)
    visitor = Visitor(site.url)
    token = read_csrf(visitor.get(path).text)
    new = "meridian otter violin"
    done = visitor.post(path, {"csrf_token": token, "password": new, "repeat": new})
    assert done.headers["Location"].startswith("/login/code")
    assert visitor.get("/calls").headers["Location"].startswith("/login/code")


def test_an_administrator_removes_a_lost_factor(
    site: TestApp, with_factor: tuple[AuthenticatorApp, list[str]]
) -> None:
    add_with_password(site, ALICE)
    admin = Visitor(site.url)
    admin.log_in(ALICE.email)
    erin = people.find(site.app_db, ERIN.email)
    assert erin is not None
    page = admin.get(f"/settings/people/{erin.id}").text
    form = {"csrf_token": read_csrf(page)}
    assert admin.post(f"/settings/people/{erin.id}/second-factor/remove", form).status_code == 303
    assert admin.post(f"/settings/people/{erin.id}/second-factor/remove", form).status_code == 400
    assert Visitor(site.url).log_in(next="/calls").headers["Location"] == "/calls"
    entries = [(entry.who, entry.what, entry.about) for entry in audit.list_newest(site.app_db)]
    assert (ALICE.email, "second factor removed", ERIN.email) in entries
