from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import islice
from urllib.parse import urlsplit

import pytest
import requests
from flask import Flask

from integration.access import passwords, people, sessions, visibility
from integration.dashboard.site import guard
from integration.dashboard.site.guard import requires
from integration.sqlite.database import Database
from integration.web import trusted_proxies
from tests.support.applications.login_site import GOOD, Browser, Fields, Site, make_app, served

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")


def raw(base: str, method: str, target: str) -> int:
    """The status of a request whose target no client has tidied up."""
    parts = urlsplit(base)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        lines = (
            f"{method} {target} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Length: 0",
            "Accept: */*",
            "",
            "",
        )
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.makefile("rb").readline().split()[1])


def spellings(path: str) -> set[str]:
    return {
        path,
        path + "/",
        "/" + path,
        path.replace("/", "//"),
        path.upper(),
        path + "?x=1",
        path + "%00",
        path + ";x",
        path + "/../" + path.strip("/"),
        "/./" + path.strip("/"),
        "/static/.." + path,
        "/static/%2e%2e" + path,
        "/healthz/.." + path,
        "/login/.." + path,
        "".join(f"%{ord(letter):02x}" if letter.isalpha() else letter for letter in path),
    }


def test_every_route_demands_a_login_whatever_the_method_and_spelling(site: Site) -> None:
    open_rules = {"/healthz", "/login", "/setup/<token>", "/static/<path:filename>", "/logout"}
    rules = {str(rule) for rule in site.app.url_map.iter_rules()} - open_rules
    assert {"/", "/live/stream", "/notes", "/exports/cdrs.csv", "/people"} <= rules
    targets = {target for rule in rules for target in spellings(rule)} | {"/nowhere", "*"}
    for target in sorted(targets):
        for method in METHODS:
            status = raw(site.base, method, target)
            if target.startswith("/static/"):
                # Any path below is the file server's, which leaves its folder for nobody.
                assert status in (404, 401) or method == "OPTIONS", f"{method} {target}: {status}"
            else:
                assert status in (302, 400, 401), f"{method} {target}: {status}"


def test_what_is_open_is_open(visitor: Browser) -> None:
    assert visitor.get("/healthz").status_code == 200
    assert visitor.get("/static/app.css").status_code == 200
    assert visitor.get("/login").status_code == 200


def test_scripts_and_streams_are_told_not_led_to_a_form(visitor: Browser) -> None:
    for headers in (
        {"Accept": "application/json"},
        {"Accept": "text/event-stream"},
        {"Accept": "*/*", "Sec-Fetch-Dest": "empty"},
    ):
        answer = visitor.get("/live/stream", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["message"]


def test_what_is_not_there_is_told_to_those_inside_only(site: Site, inside: Browser) -> None:
    assert site.browser().get("/nowhere").status_code == 302
    assert inside.get("/nowhere").status_code == 404


def test_the_login_is_demanded_before_the_body_is_read(site: Site) -> None:
    parts = urlsplit(site.base)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(b"POST /notes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert b" 401 " in connection.makefile("rb").readline()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_an_unsafe_request_needs_the_token(inside: Browser, method: str) -> None:
    def ask(headers: dict[str, str] | None = None, data: dict[str, str] | None = None) -> int:
        return inside.http.request(
            method, inside.base + "/notes", headers=headers, data=data, timeout=30
        ).status_code

    right = inside.token
    assert ask() == 403
    assert ask({"X-CSRF-Token": "0" * 64}) == 403
    assert ask({"X-CSRF-Token": right[:-1]}) == 403
    assert ask({"X-CSRF-Token": "é"}) == 403
    assert ask(data={"csrf_token": ""}) == 403
    assert ask({"X-CSRF-Token": right}) == 200
    assert ask(data={"csrf_token": right}) == 200


def test_one_browsers_token_is_no_good_in_another(site: Site, inside: Browser) -> None:
    other = site.browser()
    other.log_in()
    assert inside.post("/notes", {"csrf_token": other.token}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "SELF"}, 200),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "SELF.evil.example"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "https://switchroom.example.com"}, 200),
        ({"Origin": "https://switchroom.example.com:443"}, 200),
        ({"Origin": "http://switchroom.example.com"}, 403),
        ({"Origin": "SELF", "Referer": "https://evil.example/"}, 200),
        ({"Referer": "SELF/people"}, 200),
        ({"Referer": "https://evil.example/"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_an_unsafe_request_must_come_from_our_own_pages(
    app_db: Database, headers: dict[str, str], status: int
) -> None:
    people.create(app_db, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    with served(make_app(app_db, public_url="https://switchroom.example.com/")) as base:
        browser = Browser(base)
        browser.log_in()
        sent = {name: value.replace("SELF", base) for name, value in headers.items()}
        assert browser.post("/notes", {"csrf_token": browser.token}, headers=sent).status_code == status
        login = {
            **Fields(Browser(base).get("/login").text).values,
            "email": "ann@example.com",
            "password": GOOD,
        }
        stranger = Browser(base)
        login["csrf_token"] = Fields(stranger.get("/login").text).values["csrf_token"]
        assert stranger.post("/login", login, headers=sent).status_code == (303 if status == 200 else 403)


def test_a_login_needs_the_token_of_its_form(site: Site) -> None:
    browser = site.browser()
    form = {"email": "ann@example.com", "password": GOOD}
    assert browser.post("/login", form).status_code == 403
    other = Fields(site.browser().get("/login").text).values
    browser.get("/login")
    assert browser.post("/login", {**form, **other}).status_code == 403
    assert browser.cookie is not None
    assert sessions.find(site.app_db, browser.cookie) is None


def test_a_form_without_end_is_not_read(inside: Browser, site: Site) -> None:
    token = inside.token
    assert inside.post("/notes", {"x": "y" * 1_200_000, "csrf_token": token}).status_code == 413
    stranger = site.browser()
    form = Fields(stranger.get("/login").text).values
    assert stranger.post("/login", {**form, "email": "x" * 20_000}).status_code == 413


def test_every_answer_carries_the_headers(site: Site, inside: Browser) -> None:
    answers = [
        inside.get("/"),
        inside.get("/nowhere"),
        inside.get("/people"),
        inside.post("/notes"),
        inside.get("/logout"),
        site.browser().get("/"),
        site.browser().get("/login"),
        site.browser().get("/healthz"),
        site.browser().get("/static/app.css"),
        site.browser().get("/static/nothing.css"),
        site.browser().get("/setup/x"),
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


def test_a_decorator_refuses_words_that_are_no_role_or_right() -> None:
    with pytest.raises(ValueError, match="boss"):
        requires("boss")


def test_asking_who_is_there_on_an_open_route_is_a_mistake() -> None:
    with Flask(__name__).test_request_context("/healthz"), pytest.raises(RuntimeError):
        guard.current_person()


# --- behind a proxy --------------------------------------------------------------------------------------


@pytest.fixture
def proxied(app_db: Database) -> Iterator[str]:
    people.create(app_db, "ann@example.com", "agent", password_hash=passwords.hash_password(GOOD))
    networks = (ip_network("127.0.0.0/8"), ip_network("192.0.2.0/24"))
    with served(make_app(app_db, trusted_proxies=networks)) as base:
        yield base


FORWARDED = {
    "X-Forwarded-For": "203.0.113.9, 198.51.100.7, 192.0.2.1",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "switchroom.example.com",
}


def log_in_through_proxy(base: str) -> requests.Response:
    form = requests.get(base + "/login", headers=FORWARDED, timeout=30)
    cookie = form.headers["Set-Cookie"].split(";")[0]
    return requests.post(
        base + "/login",
        {**Fields(form.text).values, "email": "ann@example.com", "password": GOOD},
        headers={**FORWARDED, "Cookie": cookie, "Origin": "https://switchroom.example.com"},
        allow_redirects=False,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("203.0.113.9:51234", "203.0.113.9"),
        ("[2001:db8::7]:51234", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_some_proxies_tell_the_clients_port_which_is_none_of_its_address(told: str, address: str) -> None:
    """With it every connection would be another client: no limit of guesses, no `webhooks.allow_from`."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["REMOTE_ADDR"])
        return []

    proxied = trusted_proxies.TrustedProxies(app, (ip_network("192.0.2.0/24"),))
    proxied({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": told}, lambda *_: None)
    assert seen == [address]


def test_a_trusted_proxys_word_is_taken(proxied: str, app_db: Database) -> None:
    answer = log_in_through_proxy(proxied)
    assert answer.status_code == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-session=")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=31536000")
    found = sessions.find(app_db, cookie.split(";")[0].partition("=")[2])
    assert found is not None
    assert found[0].address == "198.51.100.7", "the first from the right that is no proxy of ours"


def test_a_strangers_forwarded_headers_are_ignored(site: Site) -> None:
    form = requests.get(site.base + "/login", headers=FORWARDED, timeout=30)
    assert form.headers["Set-Cookie"].startswith("session=")
    assert "Strict-Transport-Security" not in form.headers
    browser = site.browser()
    statuses = []
    for number in range(11):
        browser.http.headers["X-Forwarded-For"] = f"198.51.100.{number}"
        statuses.append(browser.log_in(f"p{number}@example.com", "wrong password").status_code)
    assert statuses == [401] * 10 + [429]


def test_a_plain_cookie_is_not_taken_under_https(proxied: str, app_db: Database) -> None:
    token = log_in_through_proxy(proxied).headers["Set-Cookie"].split(";")[0].partition("=")[2]
    for name, status in (("session", 302), ("__Host-session", 200)):
        answer = requests.get(
            proxied + "/",
            headers={**FORWARDED, "Cookie": f"{name}={token}"},
            allow_redirects=False,
            timeout=30,
        )
        assert answer.status_code == status


# --- whose calls -----------------------------------------------------------------------------------------


def test_agents_see_their_own_calls_where_it_is_set_so(app_db: Database) -> None:
    ann = people.create(app_db, "ann@example.com", "agent", platform_user_id=412345)
    ben = people.create(app_db, "ben@example.com", "viewer")
    sue = people.create(app_db, "sue@example.com", "supervisor", platform_user_id=412346)
    assert [visibility.of(person, "own").user_scope for person in (ann, ben, sue)] == [
        412345,
        visibility.NO_USER_ID,
        None,
    ]
    assert [visibility.of(person, "all").user_scope for person in (ann, ben, sue)] == [None, None, None]


def test_people_who_see_the_same_share_one_rendering(app_db: Database) -> None:
    ann = people.create(app_db, "ann@example.com", "agent", platform_user_id=412345)
    ben = people.create(app_db, "ben@example.com", "agent", platform_user_id=412346)
    sue = people.create(app_db, "sue@example.com", "supervisor")
    assert visibility.of(ann, "all") == visibility.of(ben, "all") != visibility.of(sue, "all")
    assert hash(visibility.of(ann, "all")) == hash(visibility.of(ben, "all"))
    assert visibility.of(ann, "own") != visibility.of(ben, "own")


def test_a_stream_ends_when_the_session_does(
    site: Site, inside: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("integration.live.stream.KEEP_ALIVE", 0.02)
    with inside.get("/live/stream", stream=True) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(b"retry:")
        sessions.revoke_all(site.app_db, 1)
        assert b"event: reload" in islice(lines, 500)
