"""Checks of write requests: body, content type and origin."""

from __future__ import annotations

import pytest

from integration.access import keys
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture

SMS = read_fixture("response-sms-list-200")["data"][0]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


def test_invalid_json_is_400_and_too_large_body_is_413(
    app: TestApp, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    response = app.client.post(f"{app.base}/sms", data=b"{", headers=writer)
    assert (response.status_code, response.json["message"]) == (400, "Validation error")
    assert response.json["errors"][0]["message"].startswith("The body is not valid JSON")
    monkeypatch.setattr("integration.facade.writes.MAX_BODY_BYTES", 10)
    response = app.client.post(f"{app.base}/sms", data=b"[1,2,3,4,5,6,7]", headers=writer)
    assert (response.status_code, response.json["errors"]) == (413, [])
    assert app.platform.requests == []


@pytest.mark.parametrize("kind", ["text/xml", "multipart/form-data; boundary=x", "text/plain;charset=UTF-8"])
def test_other_content_type_is_400_and_names_the_header(
    app: TestApp, writer: dict[str, str], kind: str
) -> None:
    for path, headers in (("/sms", writer), ("/login", {})):
        response = app.client.post(app.base + path, data=b"{}", content_type=kind, headers=headers)
        assert response.status_code == 400
        assert [entry["field"] for entry in response.json["errors"]] == ["Content-Type"]
    assert app.platform.requests == []


@pytest.mark.parametrize(
    "kind",
    [None, "application/json", "application/json; charset=utf-8", "application/vnd.api+json",
     "application/x-www-form-urlencoded"],
)  # fmt: skip
def test_content_types_of_json_clients_are_accepted(
    app: TestApp, writer: dict[str, str], kind: str | None
) -> None:
    app.platform.respond("/sms", {"data": SMS, "links": {}}, 201)
    response = app.client.post(f"{app.base}/sms", data=b"{}", content_type=kind, headers=writer)
    assert response.status_code == 201
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
def test_cross_site_form_with_cached_basic_credentials_is_403(
    app: TestApp, headers: dict[str, str], status: int
) -> None:
    """A browser adds cached Basic credentials to form posts of other sites.

    A cross-site request with the content type of JSON needs a preflight, so it is accepted.
    """
    app.platform.respond("/calls", {"data": {"id": 1}})
    user_id, secret = keys.add(app.app_db, "browser", "write")
    response = app.client.post(
        f"{app.base}/calls", data=b'{"to": "442079460001"}', headers=headers, auth=(str(user_id), secret)
    )
    assert response.status_code == status
    assert app.platform.count("/calls") == (status == 200)
