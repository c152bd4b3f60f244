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
    app.platform.respond("*", {"data": [{"token": "x"}], "total": 1})
    for path in (
        "/apitokens",
        "/apitokens.json",
        "/api_tokens",
        "/.apitokens",
        "/users/apitokens.csv",
        "/nothing/api/tokens",
        "/apitokens,users",
        "/users?include=ddis&include=a,ApiTokens",
        "/users?%20include=api_tokens",
        "/users?fields[apitokens]=token",
        "/users?apitokens=1",
    ):
        assert app.get(path, writer).status_code == 403, path
        assert app.client.delete(app.base + path, headers=writer).status_code == 403
    assert app.platform.requests == []


def test_key_with_user_scope_sees_only_records_of_that_user(app: TestApp) -> None:
    app.put("cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 2, "user_id": 8})
    app.put("users", {"id": 7, "ext": "1007"}, {"id": 8, "ext": "1008"})
    messages = {1: 1007, 2: 1008, 3: 7, 4: "1007", 5: 8}
    app.put("voicemessages", *({"id": number, "extension_id": box} for number, box in messages.items()))
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
    assert ids("/voicemessages") == [1, 3, 4]
    assert ids("/contacts") == [1, 3]
    assert ids("/users") == [7]
    assert app.get("/cdrs/1", mine).status_code == 200
    assert app.get("/cdrs/2", mine).status_code == 404
    assert ids("/users/7/cdrs") == [1]
    for path in (
        "/ddis",
        "/me",
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


def test_ids_of_other_users_look_like_ids_that_do_not_exist(app: TestApp) -> None:
    app.put(
        "cdrs", {**CDR, "id": 1, "user_id": 7}, {**CDR, "id": 3, "user_id": 8}, {**CDR, "id": 5, "user_id": 7}
    )
    app.put("cdrs", {**CDR, "id": 9, "user_id": 8})
    app.put("users", {"id": 7, "ext": "1007"}, {"id": 8, "ext": "1008"})
    app.put("voicemessages", {"id": 3, "extension_id": 1008}, {"id": 6, "extension_id": 1007})
    app.put("monitors", {"id": 3, "user_id": 8}, {"id": 6, "user_id": 7})
    for collection in ("cdrs", "users", "voicemessages", "monitors"):
        app.context.mirror_db.write(
            lambda tx, name=collection: tx.execute(
                "INSERT INTO _walks (collection, complete_at, last_success_at) VALUES (?, ?, ?)"
                " ON CONFLICT (collection) DO UPDATE SET complete_at = excluded.complete_at",
                (name, "2026-11-20 09:00:00", "2026-11-20 09:00:00"),
            )
        )
    mine = app.add_key("mine", user=7)

    def describe(path: str, number: int) -> tuple[int, bytes, list[tuple[str, str]]]:
        response = app.get(path.format(number), mine)
        headers = [pair for pair in response.headers if pair[0] not in ("Date",)]
        return response.status_code, response.data.replace(str(number).encode(), b"N"), headers

    for path, foreign, unknown in (
        ("/cdrs/{}", 3, 4),
        ("/voicemessages/{}", 3, 4),
        ("/monitors/{}", 3, 4),
        ("/monitors/{}.mp3", 3, 4),
        ("/voicemessages/{}.mp3", 3, 4),
        ("/users/{}/cdrs", 8, 6),
        ("/users/{}/cdrs.csv", 8, 6),
        ("/users/{}", 8, 9),
        ("/cdrs/{}", 9, 8),
    ):
        assert describe(path, foreign) == describe(path, unknown), path
    assert describe("/cdrs/{}", 3)[:2] == (
        404,
        b'{"message":"There is no Call detail record N.","errors":[]}',
    )
    # Above the user's own ids both are requested from the platform, which does not know 8.
    app.platform.requests.clear()
    app.clock.advance(6)
    app.platform.respond("/cdrs/9", {"data": {**CDR, "id": 9, "user_id": 8}, "links": {}})
    for number in (8, 9, 8, 9):
        assert describe("/cdrs/{}", number)[0] == 404
    assert [request.path.rpartition("/")[2] for request in app.platform.requests] == ["8", "9"]
    app.clock.advance(6)
    app.platform.fail()
    assert describe("/cdrs/{}", 9) == describe("/cdrs/{}", 8)
    assert describe("/cdrs/{}", 9)[0] == 502


@pytest.mark.parametrize("options", [{}, {"collections": ["users", "cdrs"]}, {"user": 7}])
@pytest.mark.parametrize(
    "path",
    [
        "/users%3B",
        "/cdrs/1%2500",
        "/cdrs/%252e%252e",
        "/cdrs/1%0d%0a",
        "/users/%ef%bc%91",
        "/cdrs/1%3Finclude=users",
        "/cdrs%5Cx",
        "/cdrs/%ff",
    ],
)
def test_paths_with_other_characters_are_404_for_local_keys(
    app: TestApp, path: str, options: dict[str, object]
) -> None:
    app.platform.respond("*", {"data": {"id": 1}, "links": {}})
    for method in ("GET", "POST", "PATCH", "DELETE"):
        key = app.add_key(f"key {method} {options}", "write", **options)
        response = app.client.open(app.base + path, method=method, headers=key)
        assert (response.status_code, response.json["errors"]) == (404, []), (method, path)
    assert app.platform.requests == []


def test_ordinary_path_characters_are_accepted(app: TestApp) -> None:
    app.platform.respond("*", {"data": {"id": 1}, "links": {}})
    for path in ("/ann@example.com", "/+442079460001", "/a_b-c.d,e", "/nothing/1,2"):
        assert app.get(path).status_code == 200, path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/cdrs?user_id=8", ["user_id"]),
        ("/cdrs?page=1&limit=1&filter=[]&sort=id&dir=ASC&group_by=src&extra=1", ["extra"]),
        ("/cdrs?include=users", ["include"]),
        ("/cdrs?filter[]=1", ["filter[]"]),
        ("/cdrs?Page=1", ["Page"]),
        ("/cdrs/1?limit=1", ["limit"]),
        ("/users?fields[ddis]=id", ["fields[ddis]"]),
        ("/ringgroups?fields[users][x]=id", ["fields[users][x]"]),
        ("/ringgroups?%20include=queues", [" include"]),
        ("/nothing?x=1", ["x"]),
        ("/cdrs/dictionaries?x=1", ["x"]),
    ],
)
def test_unknown_query_parameters_of_limited_keys_are_400(app: TestApp, path: str, names: list[str]) -> None:
    app.platform.respond("*", {"data": [], "total": 0})
    everything = ["cdrs", "users", "ringgroups", "ddis", "nothing", "cdrs/dictionaries"]
    response = app.get(path, app.add_key("limited", collections=everything) | {"Cache-Control": "no-cache"})
    assert (response.status_code, response.json["message"]) == (400, "Validation error")
    assert [entry["field"] for entry in response.json["errors"]] == names
    assert names[0] in response.json["errors"][0]["message"]
    assert app.platform.requests == []
    if path.startswith("/cdrs?user"):
        mine = app.add_key("mine", user=7)
        assert app.get(path, mine).json["errors"][0]["field"] == "user_id"
        assert app.get(path).status_code == 200, "keys without limits are not restricted"


def test_documented_query_parameters_of_limited_keys_are_accepted(app: TestApp) -> None:
    app.platform.respond("*", {"data": [], "total": 0})
    keys = ["queues", "users", "ddis", "ringgroups", "transactions", "calls", "cdrs", "contacts"]
    limited = app.add_key("limited", "write", collections=keys)
    for path in (
        "/queues?include=users&fields[users]=id,first_name",
        "/ringgroups/1?include=users,ddis&fields[ddis]=id",
        "/transactions?limit=25&page=1&filter=[]&sort=id&dir=DESC",
        "/users/1/cdrs?page=1&limit=5&sort=-calldate",
        "/calls?page=1",
    ):
        assert app.get(path, limited).status_code != 400, path
    body = {"users": [{"id": 5, "status": True}]}
    response = app.client.patch(f"{app.base}/queues/1?include=users", json=body, headers=limited)
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("POST", "/contacts", {"first_name": "Ann", "user_id": 5, "customer_id": 1}, "customer_id"),
        ("PATCH", "/contacts", [{"id": 1, "labels": []}, {"id": 2, "owner": 3}], "owner"),
        ("PATCH", "/queues/1", {"users": [{"id": 5, "status": True, "password": "x"}]}, "users.password"),
        ("PATCH", "/queues/1", {"users": [[{"id": 5, "password": "x"}]]}, "users.password"),
        ("PATCH", "/queues/1", {"users": {"id": {"password": "x"}}}, "users.password"),
        ("PATCH", "/queues/1", {"users": [], "sip": 1}, "sip"),
        ("DELETE", "/contacts/1", {"id": 2}, "id"),
        ("POST", "/contacts/1/unknown", {"a": 1}, "a"),
        ("POST", "/contacts", [5], ""),
        ("POST", "/contacts", "text", ""),
    ],
)
def test_unknown_body_fields_of_limited_keys_are_400(
    app: TestApp, method: str, path: str, body: object, name: str
) -> None:
    app.platform.respond("*", {"data": {"id": 1}, "links": {}})
    limited = app.add_key("limited", "write", collections=["contacts", "queues"])
    response = app.client.open(app.base + path, method=method, json=body, headers=limited)
    assert (response.status_code, response.json["message"]) == (400, "Validation error")
    assert [entry["field"] for entry in response.json["errors"]] == [name]
    assert app.platform.requests == []
    if method != "DELETE":
        unlimited = app.add_key("unlimited", "write")
        assert (
            app.client.open(app.base + path, method=method, json=body, headers=unlimited).status_code == 200
        )


def test_a_key_of_users_reads_no_chats_and_no_other_spelling_of_a_collection(app: TestApp) -> None:
    app.platform.respond("*", {"data": [{"id": 1}], "total": 1})
    users_only = app.add_key("users", collections=["users"])
    for path in ("/users/1/chatmsgs", "/users/1/CDRS", "/users/1/c-drs", "/users/1/x/Voice_Messages.json"):
        assert app.get(path, users_only).status_code == 403, path
    assert app.platform.requests == []
    assert (
        app.get("/users/1/chatmsgs", app.add_key("both", collections=["users", "chats"])).status_code == 200
    )


def test_unknown_field_of_a_call_by_a_key_of_one_user_is_400(app: TestApp) -> None:
    mine = app.add_key("mine", "write", user=7)
    response = app.client.post(f"{app.base}/calls", json={"to": "1", "user_id": 8}, headers=mine)
    assert (response.status_code, response.json["errors"][0]["field"]) == (400, "user_id")
    assert app.platform.requests == []


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
