"""Login check, CSRF protection, trusted proxies and streams."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import islice
from typing import cast
from urllib.parse import urlsplit

import pytest
import requests

from integration.access import people, sessions
from integration.web import trusted_proxies
from tests.support.application import TestApp, running_app
from tests.support.applications.login_site import (
    PASSWORD,
    HiddenFields,
    Visitor,
    add_with_password,
)
from tests.support.people import ERIN

HARMLESS_FORM = "/calls/columns"
"""A form that every dashboard user may send."""


def test_scripts_and_streams_get_401_instead_of_a_redirect(visitor: Visitor) -> None:
    for headers in (
        {"Accept": "application/json"},
        {"Accept": "text/event-stream"},
        {"Accept": "*/*", "Sec-Fetch-Dest": "empty"},
    ):
        answer = visitor.get("/live/stream", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["message"]


def test_an_unknown_path_gets_404_only_after_login(site: TestApp, logged_in_visitor: Visitor) -> None:
    assert Visitor(site.url).get("/nowhere").status_code == 302
    assert logged_in_visitor.get("/nowhere").status_code == 404


def test_the_login_is_checked_before_the_body_is_read(site: TestApp) -> None:
    address_of = urlsplit(site.url)
    with socket.create_connection((address_of.hostname, address_of.port), timeout=30) as connection:
        connection.sendall(b"POST /calls/columns HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 401 " in connection.makefile("rb").readline()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_an_unsafe_request_needs_the_token(logged_in_visitor: Visitor, method: str) -> None:
    def send(headers: dict[str, str] | None = None, data: dict[str, str] | None = None) -> int:
        return logged_in_visitor.http.request(
            method, logged_in_visitor.url + HARMLESS_FORM, headers=headers, data=data, timeout=30
        ).status_code

    right = logged_in_visitor.csrf_token
    accepted = 200 if method == "POST" else 405
    assert send() == 403
    assert send({"X-CSRF-Token": "0" * 64}) == 403
    assert send({"X-CSRF-Token": right[:-1]}) == 403
    assert send({"X-CSRF-Token": "é"}) == 403
    assert send(data={"csrf_token": ""}) == 403
    assert send({"X-CSRF-Token": right}) == accepted
    assert send(data={"csrf_token": right}) == accepted


def test_the_csrf_token_of_another_session_is_refused(site: TestApp, logged_in_visitor: Visitor) -> None:
    other = Visitor(site.url)
    other.log_in()
    assert logged_in_visitor.post(HARMLESS_FORM, {"csrf_token": other.csrf_token}).status_code == 403


@pytest.fixture(scope="module")
def public_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """The product with a public URL."""
    url = "https://switchroom.example.com/"
    with running_app(tmp_path_factory.mktemp("public"), server__public_url=url) as app:
        yield app


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Origin": "SELF"}, 303),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "SELF.evil.example"}, 403),
        ({"Origin": "https://switchroom.example.com"}, 303),
        ({"Origin": "http://switchroom.example.com"}, 403),
        ({"Origin": "SELF", "Referer": "https://evil.example/"}, 303),
        ({"Referer": "SELF/settings"}, 303),
        ({"Referer": "https://evil.example/"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_an_unsafe_request_must_have_the_origin_of_the_dashboard(
    public_app: TestApp, headers: dict[str, str], status: int
) -> None:
    if people.find(public_app.app_db, ERIN.email) is None:
        add_with_password(public_app, ERIN)
    url = public_app.url
    browser = Visitor(url)
    browser.log_in()
    sent = {name: value.replace("SELF", url) for name, value in headers.items()}
    form = {"csrf_token": browser.csrf_token}
    assert browser.post(HARMLESS_FORM, form, headers=sent).status_code == status
    stranger = Visitor(url)
    login = {
        **HiddenFields(stranger.get("/login").text).values,
        "email": ERIN.email,
        "password": PASSWORD,
    }
    assert stranger.post("/login", login, headers=sent).status_code == (303 if status == 303 else 403)


def test_a_login_needs_the_token_of_its_form(site: TestApp) -> None:
    browser = Visitor(site.url)
    form = {"email": ERIN.email, "password": PASSWORD}
    assert browser.post("/login", form).status_code == 403
    other = HiddenFields(Visitor(site.url).get("/login").text).values
    browser.get("/login")
    assert browser.post("/login", {**form, **other}).status_code == 403
    assert browser.cookie is not None
    assert sessions.find(site.app_db, browser.cookie) is None


def test_a_form_above_the_size_limit_gets_413(logged_in_visitor: Visitor, site: TestApp) -> None:
    token = logged_in_visitor.csrf_token
    assert (
        logged_in_visitor.post(HARMLESS_FORM, {"x": "y" * 1_200_000, "csrf_token": token}).status_code == 413
    )
    stranger = Visitor(site.url)
    form = HiddenFields(stranger.get("/login").text).values
    assert stranger.post("/login", {**form, "email": "x" * 20_000}).status_code == 413


def test_responses_have_the_security_headers(site: TestApp, logged_in_visitor: Visitor) -> None:
    answers = [
        logged_in_visitor.get("/"),
        logged_in_visitor.get("/nowhere"),
        logged_in_visitor.get("/settings"),
        logged_in_visitor.post(HARMLESS_FORM),
        logged_in_visitor.get("/logout"),
        Visitor(site.url).get("/"),
        Visitor(site.url).get("/login"),
        Visitor(site.url).get("/healthz"),
        Visitor(site.url).get("/static/app.css"),
        Visitor(site.url).get("/static/nothing.css"),
        Visitor(site.url).get("/setup/x"),
        *(
            Visitor(site.url).get(path)
            for path in ("/readyz", "/v1.2/cdrs", "/webhooks", "/exports/cdrs.csv")
        ),
    ]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert "Strict-Transport-Security" not in answer.headers
        if "/static/app.css" not in str(answer.url):
            stored = answer.headers["Cache-Control"]
            assert stored == "no-store" or "/static/" in str(answer.url)


# --- behind a proxy --------------------------------------------------------------------------------------


@pytest.fixture
def proxied(settings: dict[str, str], request: pytest.FixtureRequest) -> TestApp:
    """The product with Erin, behind proxies that it trusts."""
    settings["server__trusted_proxies"] = "127.0.0.0/8, 192.0.2.0/24"
    return cast(TestApp, request.getfixturevalue("site"))


FORWARDED = {
    "X-Forwarded-For": "203.0.113.9, 198.51.100.7, 192.0.2.1",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "switchroom.example.com",
}


def log_in_through_proxy(url: str) -> requests.Response:
    form = requests.get(url + "/login", headers=FORWARDED, timeout=30)
    cookie = form.headers["Set-Cookie"].split(";")[0]
    return requests.post(
        url + "/login",
        {**HiddenFields(form.text).values, "email": ERIN.email, "password": PASSWORD},
        headers={**FORWARDED, "Cookie": cookie, "Origin": "https://switchroom.example.com"},
        allow_redirects=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("forwarded_for", "address"),
    [
        ("203.0.113.9:51234", "203.0.113.9"),
        ("[2001:db8::7]:51234", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
    ],
)
def test_a_port_in_x_forwarded_for_is_removed(forwarded_for: str, address: str) -> None:
    """With the port, each connection would count as another client.

    Login throttle and `webhooks.allow_from` would have no effect.
    """
    seen = []

    def app(environ, start_response):
        seen.append(environ["REMOTE_ADDR"])
        return []

    proxied = trusted_proxies.TrustedProxies(app, (ip_network("192.0.2.0/24"),))
    proxied({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": forwarded_for}, lambda *_: None)
    assert seen == [address]


def test_forwarded_headers_of_a_trusted_proxy_are_used(proxied: TestApp) -> None:
    answer = log_in_through_proxy(proxied.url)
    assert answer.status_code == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-session=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=31536000")
    found = sessions.find(proxied.app_db, cookie.split(";")[0].partition("=")[2])
    assert found is not None
    assert found[0].address == "198.51.100.7", "the rightmost address that is not a trusted proxy"


def test_forwarded_headers_of_an_untrusted_client_are_ignored(site: TestApp) -> None:
    form = requests.get(site.url + "/login", headers=FORWARDED, timeout=30)
    assert form.headers["Set-Cookie"].startswith("session=")
    assert "Strict-Transport-Security" not in form.headers
    browser = Visitor(site.url)
    statuses = []
    for number in range(11):
        browser.http.headers["X-Forwarded-For"] = f"198.51.100.{number}"
        statuses.append(browser.log_in(f"p{number}@example.com", "wrong password").status_code)
    assert statuses == [401] * 10 + [429]


def test_a_session_cookie_without_host_prefix_is_refused_over_https(proxied: TestApp) -> None:
    token = log_in_through_proxy(proxied.url).headers["Set-Cookie"].split(";")[0].partition("=")[2]
    for name, status in (("session", 302), ("__Host-session", 200)):
        answer = requests.get(
            proxied.url + "/",
            headers={**FORWARDED, "Cookie": f"{name}={token}"},
            allow_redirects=False,
            timeout=30,
        )
        assert answer.status_code == status


def test_a_stream_ends_when_the_session_does(
    site: TestApp, logged_in_visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("integration.live.stream.KEEP_ALIVE", 0.02)
    with logged_in_visitor.get("/live/stream", stream=True) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(b"retry:")
        sessions.revoke_all(site.app_db, 1)
        assert b"event: reload" in islice(lines, 500)
