"""ETag, If-None-Match and HEAD of JSON reads."""

from __future__ import annotations

from typing import Any

import pytest

from integration.catalogue import OPERATIONS
from integration.mirror.sync_state import collection_state
from tests.support.application import TestApp
from tests.support.fake_exchange import ADMINISTRATOR, read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]
USER = read_fixture("response-users-list-200")["data"][0]


def read(app: TestApp, path: str, tag: str | None = None, **options: Any) -> Any:
    """Send GET or HEAD with If-None-Match."""
    headers = {**options.pop("headers", app.headers), **({"If-None-Match": tag} if tag else {})}
    return app.client.open(app.base + path, headers=headers, **options)


def assert_unchanged(app: TestApp, path: str, tag: str) -> None:
    response = read(app, path, tag)
    assert (response.status_code, response.data) == (304, b"")
    assert response.headers["ETag"] == tag
    assert "Content-Type" not in response.headers


def test_a_list_that_the_client_has_is_not_sent_twice(app: TestApp) -> None:
    app.put("cdrs", CDR)
    path = "/cdrs?limit=5"
    first = read(app, path)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert first.vary.as_set() == {"authorization", "x-auth-token"}
    second = read(app, path, tag)
    assert (second.status_code, second.data) == (304, b"")
    for name in ("ETag", "Cache-Control", "Vary", "X-Mirror-Complete"):
        assert second.headers[name] == first.headers[name]
    assert "X-Mirror-Age" in second.headers
    # A proxy may have made a strong tag of it, and clients may send several.
    assert read(app, path, f'"other", {tag.removeprefix("W/")}').status_code == 304
    assert read(app, path, "*").status_code == 304
    assert read(app, path, 'W/"other"').status_code == 200
    # The next sync found nothing new.
    app.put("cdrs", CDR)
    app.mirror_db.write(lambda tx: collection_state.finish_full_sync(tx, "cdrs", None, 1))
    assert_unchanged(app, path, tag)


def test_a_tag_of_the_platform_is_replaced(app: TestApp) -> None:
    headers = {"ETag": 'W/"v1"', "Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT"}
    app.platform.routes["/calls/7/trace"] = lambda _, reply: reply.json({"data": []}, headers=headers)
    first = read(app, "/calls/7/trace")
    assert first.headers["ETag"] != 'W/"v1"'
    assert "Last-Modified" not in first.headers
    assert read(app, "/calls/7/trace", 'W/"v1"').status_code == 200


def test_errors_and_writes_are_not_cached(app: TestApp, writer: dict[str, str]) -> None:
    app.platform.respond("/contacts", {"data": {"id": 9}}, 201)
    missing = read(app, "/cdrs?filter=1")
    written = app.client.post(f"{app.base}/contacts", json={"tel": "442079460123"}, headers=writer)
    assert (missing.status_code, written.status_code) == (400, 201)
    for response in (missing, written):
        assert response.headers["Cache-Control"] == "no-store"
        assert "ETag" not in response.headers
        assert response.vary.as_set() == {"authorization", "x-auth-token"}


def test_caches_store_no_response_with_secrets(app: TestApp) -> None:
    app.put("users", USER)
    shown = read(app, "/users", headers={"X-Auth-Token": ADMINISTRATOR})
    assert shown.headers["Cache-Control"] == "no-store"
    assert read(app, "/users").headers["Cache-Control"] == "private, no-cache"


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [operation.path for operation in OPERATIONS if operation.method == "GET"])
def test_head_has_the_headers_of_get(app: TestApp, path: str) -> None:
    app.clock.freeze()
    app.put("cdrs", CDR)
    app.put("users", USER)
    app.platform.respond("*", {"data": [{"id": 7}], "total": 1})
    for name, value in {"id": "7", "e164": "442079460001", "areacode": "20"}.items():
        path = path.replace("{" + name + "}", value)
    path = path.replace("{from}", "447700900101").replace("{to}", "442079460001").replace("{hash}", "f00d")
    read(app, path)  # stores what it reads through
    got, head = read(app, path), read(app, path, method="HEAD")
    assert (head.status_code, head.data) == (got.status_code, b"")
    assert dict(head.headers) == dict(got.headers)
