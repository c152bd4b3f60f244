"""Access checks of every route of the product."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from werkzeug.routing import Rule

from integration.access import sessions
from integration.settings.values import RESERVED_PATHS
from tests.support.application import TestApp, running_app
from tests.support.applications.login_site import (
    METHODS,
    Visitor,
    add_with_password,
    list_spellings,
    send_raw,
)
from tests.support.people import ALICE, Member

NO_LOGIN = {
    "/static/<path:filename>",
    "/webhooks/<secret>",
    "/healthz",
    "/help",
    "/help/",
    "/help/<path:name>",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/login",
    "/login/reset",
    "/logout",
    "/setup/<token>",
    "/wall/<token>",
    "/demo/<token>",
}
"""Rules without a login: they show no account data or have a check of their own."""

ROLES = ("viewer", "agent", "supervisor", "admin")
LOWEST_ROLES = {
    "GET": {
        "viewer": ("/",),
        "agent": ("/dial", "/recordings", "/voicemail", "/contacts/new"),
        "supervisor": ("/reports", "/export", "/calls/labels", "/calls/7/7.trace", "/system/alerts",
                       "/system/events", "/account/vmannouncements/7/audio"),
        "admin": ("/settings", "/privacy", "/system/doctor", "/system/journal"),
    },
    "POST": {
        "viewer": ("/calls/views", "/calls/columns", "/messages/read", "/notifications", "/profile",
                   "/login"),
        "agent": ("/missed", "/calls", "/dial", "/messages", "/voicemail", "/contacts", "/account"),
        "supervisor": ("/calls/labels", "/export"),
        "admin": ("/settings", "/privacy", "/system", "/live/first-steps"),
    },
}  # fmt: skip
"""Beginnings of paths by the lowest role that may open them. The longest beginning of a path counts.

The tests of a page state what a right, a link to a phone or `dashboard.agents_see` changes.
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with running_app(tmp_path_factory.mktemp("data")) as app:
        app.put("users", {"id": 7, "first_name": "Ann", "active": True})
        yield app


def list_rules(app: TestApp) -> list[Rule]:
    return list(app.product.site.url_map.iter_rules())


def make_example(rule: Rule) -> str:
    """A path that matches the rule."""
    path = re.sub(r"<any\((\w+)[^>]*>", r"\1", str(rule))
    path = re.sub(r"<int:\w+>", "7", path)
    return re.sub(r"<(path:)?\w+>", "cdrs", path)


def find_lowest_role(method: str, path: str) -> str:
    beginnings = {
        beginning: role
        for role, listed in LOWEST_ROLES[method].items()
        for beginning in listed
        if path.startswith(beginning)
    }
    return beginnings[max(beginnings, key=len)]


@pytest.mark.parametrize("role", ROLES)
def test_each_role_opens_its_pages_and_forms_and_gets_403_for_others(app: TestApp, role: str) -> None:
    token = app.make_token(Member(f"{role}@example.com", role, 7))
    app.client.set_cookie("session", token)
    headers = {"X-CSRF-Token": sessions.derive_csrf_token(token), "Accept": "text/html"}
    wrong = []
    for rule in list_rules(app):
        if str(rule) in NO_LOGIN or rule.endpoint.startswith(("facade.", "api.")):
            continue
        for method in sorted((rule.methods or set()) & LOWEST_ROLES.keys()):
            path = make_example(rule)
            # The form of the password responds with 403 to a wrong password.
            if path != "/profile/password":
                is_open = app.client.open(path, method=method, headers=headers).status_code != 403
                if is_open != (ROLES.index(role) >= ROLES.index(find_lowest_role(method, path))):
                    wrong.append(f"{method} {path}")
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
def test_pages_link_only_what_the_role_may_open(app: TestApp, role: str) -> None:
    client = app.log_in(Member(f"{role}@example.com", role, 7))
    linked: set[str] = set()
    for path in ("/live", "/missed", "/calls", "/messages", "/contacts", "/account", "/system"):
        linked.update(re.findall(r'(?:href|action)="(/[^"#?]*)', client.get(path).text))
    closed = {path for path in linked if client.get(path).status_code == 403}
    assert closed == set()
    for path in ("/voicemail", "/reports", "/exports", "/settings/people", "/privacy"):
        assert (path in linked) == (client.get(path).status_code != 403), path


def test_no_base_path_of_the_facade_can_hide_a_page(app: TestApp) -> None:
    base_paths = {path.strip("/") for path in app.context.settings.facade.base_paths}
    # A base path at or below /api has precedence over the own API.
    segments = {str(rule).split("/")[1] for rule in list_rules(app)} - base_paths - {"", "api"}
    assert {"privacy", "live"} <= segments
    assert segments <= RESERVED_PATHS


@pytest.mark.exhaustive
def test_every_other_route_needs_a_login(app: TestApp) -> None:
    rules = [rule for rule in list_rules(app) if str(rule) not in NO_LOGIN]
    assert len(rules) > 15
    for rule in rules:
        for target in sorted(list_spellings(make_example(rule))):
            if target.startswith(("/static/", "/login/..", "/healthz/")):
                continue
            for method in METHODS:
                status = send_raw(app.url, method, target)
                if rule.endpoint.startswith(("facade.", "exports.", "api.")):
                    # They accept keys as well; the response to OPTIONS has no body.
                    allowed = (302, 308, 400, 401, 404, 405, 501, *((200, 204) * (method == "OPTIONS")))
                else:
                    allowed = (302, 400, 401)
                assert status in allowed, f"{method} {target}: {status}"


@pytest.mark.exhaustive
def test_every_unsafe_route_needs_the_csrf_token(app: TestApp) -> None:
    add_with_password(app, ALICE)
    unsafe = [
        (method, rule)
        for rule in list_rules(app)
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
        if not rule.endpoint.startswith(("facade.", "webhooks.", "api."))
    ]
    assert len(unsafe) >= 8
    browser = Visitor(app.url)
    assert browser.log_in(ALICE.email).status_code == 303
    for method, rule in unsafe:
        answer = browser.http.request(method, app.url + make_example(rule), allow_redirects=False, timeout=30)
        assert answer.status_code == 403, f"{method} {rule}"
        foreign = browser.http.request(
            method,
            app.url + make_example(rule),
            headers={"X-CSRF-Token": "0" * 64, "Origin": "https://evil.example"},
            allow_redirects=False,
            timeout=30,
        )
        assert foreign.status_code == 403, f"{method} {rule}"
