"""Responses to forms: redirects, values shown once, and reloads of refused forms."""

from __future__ import annotations

import re
from html import unescape

import pytest

from integration.dashboard.site import after_redirect
from tests.dashboard.site.test_every_route import list_rules, make_example
from tests.support.people import Member

OTHER_ADMIN = Member("frank@example.com", "admin")


def list_form_paths(app) -> list[str]:
    """Example paths of all dashboard routes that accept forms."""
    return [
        make_example(rule)
        for rule in list_rules(app)
        if "POST" in (rule.methods or ())
        and not rule.endpoint.startswith(("facade.", "api.", "webhooks.", "login."))
    ]


@pytest.mark.exhaustive
def test_every_form_redirects_or_is_refused_and_its_address_can_be_requested(app):
    app.call(7, "2026-03-02 10:00:00")
    paths = list_form_paths(app)
    assert len(paths) > 55
    for path in paths:
        client = app.log_in()
        response = client.post(path, follow=False)
        assert response.status_code == 303 or 400 <= response.status_code < 600, path
        assert response.status_code != 500, path
        shown = app.log_in().get(path)
        assert shown.status_code in ((200, 404) if response.status_code == 404 else (200,)), path


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/settings/keys/7/revoke", "/settings/keys"),
        ("/settings/connection/mail", "/settings/connection"),
        ("/settings/people/7/remove", "/settings/people/7"),
        ("/missed/7/close", "/missed"),
        ("/system/replay", "/system"),
        ("/calls/views", "/calls"),
        ("/logout", "/"),
    ],
)
def test_the_address_of_a_form_leads_to_its_page(shared_app, path, page):
    response = shared_app.log_in().get(path, allow_redirects=False)
    assert (response.status_code, response.headers["Location"]) == (303, page)


SECRET_FORMS = (
    ("/settings/people", {"email": "bea@example.com", "role": "agent"}),
    ("/settings/keys", {"name": "crm", "scope": "read"}),
    ("/settings/screens", {"name": "Office"}),
)


def find_secrets(page: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'<br><code class="mono">([^<]+)</code>', page)]


@pytest.mark.parametrize(("path", "fields"), SECRET_FORMS)
def test_a_secret_is_shown_exactly_once_after_the_redirect(app, path, fields):
    client = app.log_in()
    response = client.post(path, follow=False, **fields)
    location = response.headers["Location"]
    assert (response.status_code, location.partition("#")[0]) == (303, path)
    assert client.head(path).status_code == 200
    page = client.get(location)
    (secret,) = find_secrets(page.text)
    assert len(secret) > 20
    assert secret not in location + response.text + str(response.headers) + page.url
    assert find_secrets(client.get(location).text) == []
    assert secret not in client.get(location).text


def test_a_secret_is_shown_only_to_the_session_that_created_it(app):
    client, same_user, other = app.log_in(), app.log_in(), app.log_in(OTHER_ADMIN)
    client.post("/settings/screens", name="Office", follow=False)
    assert find_secrets(same_user.get("/settings/screens").text) == []
    assert find_secrets(other.get("/settings/screens").text) == []
    assert len(find_secrets(client.get("/settings/screens").text)) == 1


def test_a_secret_that_no_page_has_shown_is_dropped(app):
    client = app.log_in()
    client.post("/settings/screens", name="Office", follow=False)
    app.clock.advance(after_redirect.KEEP_SECONDS + 1)
    assert find_secrets(client.get("/settings/screens").text) == []
