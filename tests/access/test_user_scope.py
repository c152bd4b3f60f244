"""Local keys limited to collections or to records of one user."""

from __future__ import annotations

import pytest

from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


def test_limited_key_reads_only_its_collections(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.put("sms")
    limited = app.add_key("limited", collections=["cdrs"])
    assert app.get("/cdrs", limited).status_code == 200
    assert app.get(f"/cdrs/{CDR['id']}", limited).status_code == 200
    for path in ("/sms", "/me", "/users/1/cdrs", "/cdrs/calltracking", "/faxes/1", "/queues?include=users"):
        assert app.get(path, limited).status_code == 403, path
    assert app.client.post(f"{app.base}/sms", json={}, headers=app.headers).status_code == 403
    assert app.client.delete(f"{app.base}/nothing/1", headers=app.headers).status_code == 403


@pytest.mark.parametrize("path", ["/ringgroups", "/ringgroups/1", "/users/1/contacts", "/nothing"])
def test_limited_key_gets_no_other_collection_by_include(app: TestApp, path: str) -> None:
    """The request is sent neither to the mirror nor to the platform."""
    limited = app.add_key("limited", collections=["ringgroups", "users", "contacts", "nothing"])
    app.platform.respond("*", {"data": {"id": 1, "ddis": [{"id": 5}]}, "links": {}})
    response = app.get(f"{path}?include=users,ddis&include=queues", limited | {"Cache-Control": "no-cache"})
    assert response.status_code == 403
    assert app.platform.requests == []


@pytest.mark.parametrize(
    "query",
    [
        'filter=[{"property":"vm_pin","operator":"like","value":"1%"}]',
        'filter=[]&filter=[{"property":"sip_password","operator":"eq","value":"x"}]',
        "sort=-vm_pin",
        "group_by=pin",
    ],
)
@pytest.mark.parametrize("path", ["/users", "/users/1/contacts"])
def test_local_key_cannot_query_by_secret_fields(app: TestApp, path: str, query: str) -> None:
    response = app.get(f"{path}?{query}", app.headers | {"Cache-Control": "no-cache"})
    assert response.status_code == 400
    assert app.platform.requests == []


def test_api_tokens_are_403_for_local_keys(app: TestApp) -> None:
    writer = app.add_key("writer", "write")
    for path in ("/apitokens", "/APITokens/x", "/apitokens/x"):
        assert app.get(path, writer).status_code == 403
        assert app.client.delete(app.base + path, headers=writer).status_code == 403
    assert app.platform.requests == []


def test_key_with_user_scope_sees_only_records_of_that_user(app: TestApp) -> None:
    app.put("cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 2, "user_id": 8})
    app.put("users", {"id": 7, "ext": "1007"}, {"id": 8, "ext": "1008"})
    app.put("voicemessages", {"id": 1, "extension_id": 1007}, {"id": 2, "extension_id": 1008})
    app.put(
        "contacts",
        {"id": 1, "user_id": 7, "global": False},
        {"id": 2, "user_id": 8, "global": False},
        {"id": 3, "user_id": 8, "global": True},
    )
    app.put("ddis", {"id": 1})
    mine = app.add_key("mine", user=7)

    def ids(path: str) -> list[int]:
        return [record["id"] for record in app.get(path, mine).json["data"]]

    assert ids("/cdrs") == [1]
    assert app.get("/cdrs", mine).json["total"] == 1
    assert (
        ids("/cdrs?filter=%5B%7B%22property%22:%22user_id%22,%22operator%22:%22eq%22,%22value%22:8%7D%5D")
        == []
    )
    assert ids("/voicemessages") == [1]
    assert ids("/contacts") == [1, 3]
    assert ids("/users") == [7]
    assert app.get("/cdrs/1", mine).status_code == 200
    assert app.get("/cdrs/2", mine).status_code == 403
    assert ids("/users/7/cdrs") == [1]
    for path in (
        "/ddis",
        "/me",
        "/users/8",
        "/users/8/cdrs",
        "/users/7/calls",
        "/cdrs/1.trace",
        "/faxes/1",
        "/users/8/cdrs.csv",
    ):
        assert app.get(path, mine).status_code == 403, path
    app.platform.respond("/cdrs", {"data": [CDR], "total": 1})
    assert ids("/cdrs") == [1]
    assert app.get("/cdrs", {**mine, "Cache-Control": "no-cache"}).json["total"] == 1
    assert app.platform.count("/cdrs") == 0


def test_key_with_user_scope_gets_503_before_the_first_sync(app: TestApp) -> None:
    mine = app.add_key("mine", user=7)
    unread = app.get("/cdrs", mine)
    assert (unread.status_code, unread.json["errors"]) == (503, [])
    assert int(unread.headers["Retry-After"]) > 0
    app.put("voicemessages", {"id": 1, "extension_id": 1007})
    assert app.get("/voicemessages", mine).status_code == 503
    app.put("users", {"id": 7, "ext": "1007"})
    assert app.get("/voicemessages", mine).json["total"] == 1
    app.put("cdrs")
    assert app.get("/cdrs", mine).json == {"data": [], "total": 0}


def test_calls_of_a_key_with_user_scope_are_made_from_that_user(app: TestApp) -> None:
    app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    mine = app.add_key("mine", "write", user=7)
    assert app.client.post(f"{app.base}/calls", json={"to": "447700900001"}, headers=mine).status_code == 201
    assert b'"from":"7"' in app.platform.requests[-1].body
    other = {"to": "447700900001", "from": "8"}
    assert app.client.post(f"{app.base}/calls", json=other, headers=mine).status_code == 403
    assert app.client.post(f"{app.base}/sms", json={}, headers=mine).status_code == 403
