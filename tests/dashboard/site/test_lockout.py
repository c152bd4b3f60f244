"""Lock-out: counts of address, account and known device; warning about untrusted proxies."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from integration.maintenance.forwarded_requests import EXTENSION
from tests.support.application import TestApp
from tests.support.applications.login_site import HiddenFields, Visitor, add_with_password
from tests.support.clock import Clock
from tests.support.people import BOB, ERIN


@pytest.fixture
def settings() -> dict[str, str]:
    """A proxy at 127.0.0.1 that sends the address of its client."""
    return {"server__trusted_proxies": "127.0.0.1"}


def make_visitor(app: TestApp, address: str) -> Visitor:
    visitor = Visitor(app.url)
    visitor.http.headers["X-Forwarded-For"] = address
    return visitor


def guess(visitor: Visitor, count: int, email: str = ERIN.email) -> list[int]:
    return [visitor.log_in(email, f"wrong password {n}").status_code for n in range(count)]


def log_out(visitor: Visitor) -> None:
    assert visitor.post("/logout", {"csrf_token": visitor.csrf_token}).status_code == 303


def test_wrong_passwords_from_anywhere_do_not_lock_out_a_known_browser(
    frozen_clock: Clock, site: TestApp
) -> None:
    known = make_visitor(site, "192.0.2.1")
    assert known.log_in().status_code == 303
    log_out(known)
    for number in range(10):
        assert guess(make_visitor(site, f"198.51.100.{number}"), 1) == [401]
    assert make_visitor(site, "203.0.113.5").log_in().status_code == 429, "another browser waits"
    assert known.log_in().status_code == 303


def test_a_stranger_at_the_same_address_does_not_lock_out_known_browsers(
    frozen_clock: Clock, site: TestApp
) -> None:
    known = make_visitor(site, "192.0.2.1")
    known.log_in()
    log_out(known)
    guess(make_visitor(site, "192.0.2.1"), 10, "nobody@example.com")
    assert make_visitor(site, "192.0.2.1").log_in().status_code == 429
    assert known.log_in().status_code == 303


def test_a_known_browser_has_ten_attempts_a_minute(frozen_clock: Clock, site: TestApp) -> None:
    known = make_visitor(site, "192.0.2.1")
    known.log_in()
    log_out(known)
    assert guess(known, 11) == [401] * 10 + [429]
    known.http.headers["X-Forwarded-For"] = "192.0.2.2"
    assert known.log_in().status_code == 429, "another address does not reset the count"
    assert make_visitor(site, "192.0.2.3").log_in().status_code == 303, "the count is its own"
    frozen_clock.advance(61)
    assert known.log_in().status_code == 303


def test_a_browser_is_known_for_its_own_user_only(frozen_clock: Clock, site: TestApp) -> None:
    add_with_password(site, BOB)
    of_bob = make_visitor(site, "192.0.2.1")
    of_bob.log_in(BOB.email)
    log_out(of_bob)
    assert guess(of_bob, 11) == [401] * 10 + [429]
    assert of_bob.log_in(BOB.email).status_code == 303


def test_a_forged_device_cookie_changes_nothing(frozen_clock: Clock, site: TestApp) -> None:
    for number in range(10):
        guess(make_visitor(site, f"198.51.100.{number}"), 1)
    stranger = make_visitor(site, "192.0.2.9")
    stranger.http.cookies.set("__Host-device", "A" * 43)
    stranger.http.cookies.set("device", "A" * 43)
    assert stranger.log_in().status_code == 429


def test_the_device_cookie_is_protected_and_changes_at_each_login(frozen_clock: Clock, site: TestApp) -> None:
    visitor = make_visitor(site, "192.0.2.1")
    (header,) = [
        value
        for name, value in visitor.log_in().raw.headers.items()
        if name == "Set-Cookie" and value.startswith("device=")
    ]
    assert {"HttpOnly", "Path=/", "SameSite=Lax"} <= set(header.split("; "))
    first = visitor.http.cookies["device"]
    log_out(visitor)
    assert visitor.http.cookies["device"] == first, "a logout keeps it"
    visitor.log_in()
    assert visitor.http.cookies["device"] != first
    thief = make_visitor(site, "192.0.2.2")
    thief.http.cookies.set("device", first)
    for number in range(10):
        guess(make_visitor(site, f"198.51.100.{number}"), 1)
    assert thief.log_in().status_code == 429, "the old token is worth nothing"
    stored = b"".join(path.read_bytes() for path in site.app_db.path.parent.glob("house.db*"))
    assert visitor.http.cookies["device"].encode() not in stored


def test_a_new_password_makes_all_browsers_unknown(frozen_clock: Clock, site: TestApp) -> None:
    from integration.access import passwords, people
    from tests.support.applications.login_site import PASSWORD

    known = make_visitor(site, "192.0.2.1")
    known.log_in()
    people.set_password(site.app_db, ERIN.email, passwords.hash_password(PASSWORD))
    for number in range(10):
        guess(make_visitor(site, f"198.51.100.{number}"), 1)
    assert known.log_in().status_code == 429


# --- warning about untrusted proxies ---------------------------------------------------------------------


@pytest.fixture
def open_app(settings: dict[str, str], request: pytest.FixtureRequest) -> Any:
    """The product without trusted proxies."""
    settings.clear()
    return request.getfixturevalue("app")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Forwarded-For", "192.0.2.7"),
        ("X-Real-IP", "192.0.2.7"),
    ],
)
def test_an_untrusted_local_proxy_is_reported(
    open_app: TestApp, caplog: pytest.LogCaptureFixture, header: str, value: str
) -> None:
    browser = open_app.log_in()
    assert "server.trusted_proxies" not in browser.get("/system").text
    with caplog.at_level(logging.WARNING, "integration.maintenance"):
        for _ in range(3):
            open_app.client.get("/healthz", headers={header: value})
    assert [record.message.startswith(f"requests with {header}") for record in caplog.records] == [True]
    page = browser.get("/system").text
    assert f"requests with {header} arrive from 127.0.0.1" in page
    assert "server.trusted_proxies = [&#34;127.0.0.1&#34;]" in page


def test_remote_and_trusted_peers_are_not_reported(app: TestApp, settings: dict[str, str]) -> None:
    headers = {"X-Forwarded-For": "192.0.2.7"}
    app.client.get("/healthz", headers=headers)
    app.client.get("/healthz", headers=headers, environ_base={"REMOTE_ADDR": "192.0.2.8"})
    app.client.get("/healthz", headers={"Via": "1.1 cache"})
    assert app.product.site.extensions[EXTENSION].problem is None


def test_webhooks_of_an_untrusted_proxy_are_reported(open_app: TestApp) -> None:
    headers = {"X-Forwarded-For": "192.0.2.7"}
    form = HiddenFields(open_app.client.get("/login").text).values
    assert "csrf_token" in form
    assert Visitor(open_app.url).get("/webhooks/x", headers=headers).status_code == 404
    assert open_app.product.site.extensions[EXTENSION].problem is not None
