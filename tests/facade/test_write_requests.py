"""Checks of a write request before it is sent: body, content type and origin."""

from __future__ import annotations

import pytest

from integration.access import keys
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture

SMS = read_fixture("response-sms-list-200")["data"][0]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


def test_a_body_that_is_not_json_is_400_and_a_huge_one_413(
    app: TestApp, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = app.client.post(f"{app.base}/sms", data=b"{", headers=writer)
    assert (answer.status_code, answer.json["message"]) == (400, "Validation error")
    monkeypatch.setattr("integration.facade.writes.MAX_BODY_BYTES", 10)
    answer = app.client.post(f"{app.base}/sms", data=b"[1,2,3,4,5,6,7]", headers=writer)
    assert (answer.status_code, answer.json["errors"]) == (413, [])
    assert app.platform.requests == []


@pytest.mark.parametrize("kind", ["text/xml", "multipart/form-data; boundary=x", "text/plain;charset=UTF-8"])
def test_a_body_that_says_it_is_no_json_is_400_and_names_the_header(
    app: TestApp, writer: dict[str, str], kind: str
) -> None:
    for path, headers in (("/sms", writer), ("/login", {})):
        answer = app.client.post(app.base + path, data=b"{}", content_type=kind, headers=headers)
        assert answer.status_code == 400
        assert [entry["field"] for entry in answer.json["errors"]] == ["Content-Type"]
    assert app.platform.requests == []


@pytest.mark.parametrize(
    "kind",
    [None, "application/json", "application/json; charset=utf-8", "application/vnd.api+json",
     "application/x-www-form-urlencoded"],
)  # fmt: skip
def test_what_programs_send_json_as_is_taken(app: TestApp, writer: dict[str, str], kind: str | None) -> None:
    app.platform.respond("/sms", {"data": SMS, "links": {}}, 201)
    answer = app.client.post(f"{app.base}/sms", data=b"{}", content_type=kind, headers=writer)
    assert answer.status_code == 201
    assert app.platform.requests[-1].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**FORM, **EVIL}, 403),
        (EVIL, 403),
        ({**FORM, "Sec-Fetch-Site": "cross-site"}, 403),
        (FORM, 200),
        ({**FORM, "Origin": "http://localhost"}, 200),
        ({**EVIL, "Content-Type": "application/json"}, 200),
    ],
)
def test_another_sites_page_can_not_write_by_what_the_browser_remembers(
    app: TestApp, headers: dict[str, str], status: int
) -> None:
    """A browser that was asked for Basic credentials here once sends them along with whatever another page
    makes it post, unless that needs a preflight, as JSON by its name does."""
    app.platform.respond("/calls", {"data": {"id": 1}})
    user_id, secret = keys.add(app.app_db, "browser", "write")
    answer = app.client.post(
        f"{app.base}/calls", data=b'{"to": "442079460001"}', headers=headers, auth=(str(user_id), secret)
    )
    assert answer.status_code == status
    assert app.platform.count("/calls") == (status == 200)
