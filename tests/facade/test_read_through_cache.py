"""Response cache of dictionaries and of lists below a record."""

from __future__ import annotations

from typing import Any

import pytest

from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.application import BASE_PATH, TestApp

CODES: dict[str, Any] = {"data": [{"property": "type", "id": "O", "name": "Outbound"}], "total": 1}


TWO: dict[str, Any] = {
    "data": [
        {"property": "type", "id": "O", "name": "Outbound"},
        {"property": "type", "id": "I", "name": "Inbound"},
    ],
    "total": 2,
}


OBJECT = {"type": {"O": "Outbound"}, "password": {"S": "sms"}}


@pytest.mark.parametrize("collection", ["msdrs/dictionaries", "callmeback/websites"])
@pytest.mark.parametrize(
    "received",
    [
        CODES,
        TWO,
        {"data": [], "total": 0},
        {"data": OBJECT, "links": {}},
        {"data": OBJECT, "total": 1},
        OBJECT,
    ],
    ids=["one", "two", "none", "object", "counted object", "bare object"],
)
def test_a_list_without_ids_is_served_in_the_form_that_was_received(
    app: TestApp, collection: str, received: dict[str, Any]
) -> None:
    if received == OBJECT and not collection.endswith("dictionaries"):
        return  # A list without an envelope is refused.
    app.platform.respond(f"/{collection}", received)
    run_full_sync(app.context, PLAN[collection])
    app.platform.requests.clear()
    app.platform.fail()
    response = app.get(f"/{collection}?limit=5")
    assert response.status_code == 200
    assert response.headers["X-Mirror-Complete"] == "true"
    masked = {**OBJECT, "password": None}
    if "type" in received:
        assert response.json == masked
    elif isinstance(received["data"], dict):
        assert response.json == {"data": masked, "links": {"self": f"{BASE_PATH}/{collection}"}}
    else:
        assert response.json == received
    assert app.platform.requests == []
    # The next response can have another form.
    app.platform.respond(f"/{collection}", CODES)
    run_full_sync(app.context, PLAN[collection])
    app.platform.fail()
    assert app.get(f"/{collection}").json == CODES


def test_a_dictionary_of_unknown_form_is_read_through_until_its_next_sync(app: TestApp) -> None:
    """Earlier versions did not store the form."""
    path = "/cdrs/dictionaries"
    app.platform.respond(path, CODES)
    run_full_sync(app.context, PLAN["cdrs/dictionaries"])
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _walks SET form = NULL") and None)
    app.platform.fail()
    assert app.get(path).status_code == 502
    app.platform.respond(path, CODES)
    run_full_sync(app.context, PLAN["cdrs/dictionaries"])
    app.platform.fail()
    assert app.get(path).json == CODES


def test_dictionary_is_requested_once_a_day(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/cdrs/dictionaries"
    app.platform.respond(path, CODES)
    assert [app.get(path).json for _ in range(3)] == [CODES] * 3
    assert app.platform.count(path) == 1
    assert int(app.get(path).headers["X-Mirror-Age"]) < 60
    assert app.get(path, {**app.headers, "Cache-Control": "no-cache"}).json == CODES
    assert app.platform.count(path) == 2
    monkeypatch.setattr("integration.facade.read_through.FRESH_SECONDS", 0)
    app.get(path)
    assert app.platform.count(path) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/cdrs/5/notes",
        "/users/7/cdrs?limit=5&page=2",
    ],
)
def test_list_below_a_record_is_read_through_and_cached_for_outages(app: TestApp, path: str) -> None:
    plain = path.partition("?")[0]
    app.platform.respond(plain, {"data": [{"id": 1}], "total": 1})
    assert app.get(path).json["total"] == 1
    app.platform.respond(plain, {"data": [{"id": 1}, {"id": 2}], "total": 2})
    fresh = app.get(path)
    assert fresh.json["total"] == 2
    assert "X-Mirror-Age" not in fresh.headers
    app.platform.fail()
    kept = app.get(path)
    assert (kept.status_code, kept.json) == (200, fresh.json)
    assert "X-Mirror-Age" in kept.headers
    assert app.get(path + ("&" if "?" in path else "?") + "sort=id").status_code == 502
    assert app.get(path, {**app.headers, "Cache-Control": "no-cache"}).status_code == 502


def test_lists_of_live_calls_are_not_cached(app: TestApp) -> None:
    for path in ("/users/7/calls", "/calls/5/monitors", "/calls/5/trace"):
        app.platform.respond(path, {"data": [], "total": 0})
        assert app.get(path).status_code == 200
    app.platform.fail()
    assert [app.get(path).status_code for path in ("/users/7/calls", "/calls/5/trace")] == [502, 502]


def test_secrets_in_a_cached_response_are_hidden_from_local_keys(app: TestApp) -> None:
    path = "/users/7/contacts"
    app.platform.respond(path, {"data": [{"id": 1, "vm_pin": "4711"}], "total": 1})
    assert b"4711" not in app.get(path).data
    app.platform.fail()
    assert b"4711" not in app.get(path).data
