"""Every operation of the catalogue answers as its row says: status, envelope, credentials, rights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from integration.catalogue import OPERATIONS, get_resource
from integration.catalogue.shapes import Operation
from integration.simulator import embed
from tests.support.payloads.operation_bodies import BAD, GOOD
from tests.support.simulator_client import START, Client

pytestmark = pytest.mark.exhaustive

EVERY = {operation.name: operation for operation in OPERATIONS}
BY_NAME = pytest.mark.parametrize("name", EVERY)
# Collections that a seeded world leaves empty: only live calls fill this one.
_LIVE = "/calls"


def prepared(client: Client, operation: Operation) -> tuple[str, Any]:
    """The path and body of a request that should succeed."""
    needed = {name: _parameter(client, operation, name) for name in operation.parameters}
    body = GOOD.get(operation.name)
    if operation.name == "PATCH /cdrs":
        body = [{"id": client.rows("/cdrs")[0]["id"], "labels": ["Order"], "note": "Called back"}]
    if operation.name == "PATCH /voicemessages":
        body = [{"id": client.rows("/voicemessages")[0]["id"], "folder": "2"}]
    if operation.name in ("POST /login", "POST /login2fa"):
        body = _login(client, operation.name)
    if operation.name == "POST /reset":
        body = {"token": _reset_token(client), "password": "a new password"}
    if "{from}" in operation.path:
        return _thread(client, operation.path), body
    return operation.path.format(**needed), body


def _parameter(client: Client, operation: Operation, name: str) -> Any:
    parent = operation.path.split("/{")[0]
    match name:
        case "hash":
            return registered(client, operation.name)
        case "areacode":
            return "20"
        case "e164":
            return client.rows("/ddis")[0]["e164"]
        case "from" | "to":
            return None
    if parent == "/customers":
        return client.get("/me").json()["data"]["customer_id"]
    if parent == _LIVE:
        return client.play("plain_answered", user="1002", until="connected")["leg_ids"][0]
    if parent == "/callmeback/buttons":
        return client.rows("/callmeback/settings")[0]["button_id"]
    if parent == "/chatmsgs":
        return _message(client)
    if operation.name == "DELETE /users/{id}":
        return 1000007
    return client.rows(parent)[0]["id"]


def _message(client: Client) -> int:
    """A chat message that is not the ordinary user's."""
    operators = {row["operator_id"] for row in client.rows("/chats")} - {client.simulator.ordinary_user.id}
    return int(client.rows(f"/users/{operators.pop()}/chatmsgs")[0]["id"])


def registered(client: Client, name: str) -> str:
    body = {**GOOD["POST /registrations"], "company": name}
    answer = client.session.post(client.simulator.url + "/registrations", json=body)
    return str(answer.json()["data"]["hash"])


def _login(client: Client, name: str) -> dict[str, Any]:
    simulator = client.simulator
    person = simulator.admin if name == "POST /login" else simulator.two_factor_user
    body = {"email": person.email, "password": person.password}
    if name == "POST /login":
        return body
    nonce = client.session.post(simulator.url + "/login", json=body).json()["nonce"]
    return {"nonce": nonce, "code": simulator.context.login_service.codes[person.email]}


def _reset_token(client: Client) -> str:
    client.session.post(client.simulator.url + "/password", json={"email": "ada@example.com"})
    people = client.control("GET", "/account")["people"]
    return str(next(person["code"] for person in people if person["email"] == "ada@example.com"))


def _thread(client: Client, path: str) -> str:
    sms = next(row for row in client.rows("/sms") if row["user_id"])
    return path.replace("{id}", str(sms["user_id"])).replace("{from}", sms["from"]).replace("{to}", sms["to"])


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """One world for what changes nothing: reads, and all that is refused."""
    simulator = embed.start(seed=7, cdrs=1000, start_at=START)
    yield Client(simulator, simulator.admin.api_key)
    simulator.stop()


@pytest.fixture(scope="module")
def written() -> Iterator[Client]:
    """One world for what makes and changes records, but deletes none."""
    simulator = embed.start(seed=7, cdrs=200, start_at=START)
    yield Client(simulator, simulator.admin.api_key)
    simulator.stop()


@BY_NAME
def test_every_operation_answers_an_administrator_as_its_row_says(name, begin, shared, written):
    operation = EVERY[name]
    if operation.method == "DELETE" or name == "POST /logout":
        client = begin(cdrs=200, start_at=START)
    else:
        client = shared if operation.method == "GET" else written
    path, body = prepared(client, operation)
    answer = (
        client.ask(operation.method, path, json=body)
        if body is not None
        else client.ask(operation.method, path)
    )
    assert answer.status_code in operation.success, answer.text
    check_envelope(operation, answer)


def check_envelope(operation: Operation, answer: requests.Response) -> None:
    if operation.response_kind == "file":
        assert answer.content
        assert "json" not in answer.headers["Content-Type"]
        return
    if answer.status_code == 204:
        assert answer.content == b""
        return
    shown = answer.json()
    match operation.response_kind:
        case "collection" | "dictionary":
            assert isinstance(shown["data"], list)
            assert shown["total"] >= len(shown["data"])
            assert shown["data"] or operation.path == _LIVE, "a seeded world has some of everything"
        case "item":
            assert isinstance(shown["data"], dict)
            assert isinstance(shown["links"], dict)
            _check_fields(operation, shown["data"])
        case "message":
            # The specification has {message}, the platform answers {data: {response}}
            # (docs/platform.md#2-sign-in).
            assert "message" in shown or shown["data"]["response"] == "Pong"
        case "unknown":
            assert "message" in shown or "data" in shown


def _check_fields(operation: Operation, record: dict[str, Any]) -> None:
    """A record has all documented fields, but for those of lists that its own path calls otherwise."""
    if operation.resource is None or operation.name == "GET /me":
        return
    missing = {f.name for f in get_resource(operation.resource).fields if f.documented} - record.keys()
    assert missing <= {"customer"}, missing


@BY_NAME
def test_without_credentials_only_public_operations_answer(name, shared):
    operation = EVERY[name]
    path = operation.path
    for parameter in operation.parameters:
        path = path.replace("{" + parameter + "}", "1")
    answer = requests.request(operation.method, shared.simulator.url + path, json={}, timeout=30)
    assert (answer.status_code != 401) == operation.is_public, answer.text


FOREIGN: dict[str, Callable[[Client], Any]] = {
    "/calls": lambda c: c.play("plain_answered", user="1006", until="connected")["leg_ids"][0],
    "/sms": lambda c: _others(c, "/sms", "user_id"),
    "/sms/cannedresponses": lambda c: _others(c, "/sms/cannedresponses", "user_id"),
    "/calllabels": lambda c: _others(c, "/calllabels", "user_id"),
    "/vmannouncements": lambda c: _others(c, "/vmannouncements", "extension"),
    "/contacts": lambda c: _others(c, "/contacts", "user_id"),
    "/users": lambda _: 1000001,
    "/chats": lambda c: _others(c, "/chats", "operator_id"),
    "/cdrs": lambda c: _others(c, "/cdrs", "user_id"),
    "/monitors": lambda c: _others(c, "/monitors", "user_id"),
    "/msdrs": lambda c: _others(c, "/msdrs", "user_id"),
    "/mediasessions": lambda c: _others(c, "/mediasessions", "user"),
    "/voicemessages": lambda c: _others(c, "/voicemessages", "extension_id"),
}
# Of these everybody may do their own.
OWN = {"GET /me"} | {n for n, row in EVERY.items() if row.module == "registration"}


def _others(client: Client, path: str, owner: str) -> Any:
    me = client.simulator.ordinary_user.id
    return next(row["id"] for row in client.rows(path) if row[owner] not in (None, me))


@pytest.mark.parametrize("name", [n for n, row in EVERY.items() if 403 in row.errors and n not in OWN])
def test_an_ordinary_user_is_refused_what_is_others(name, shared):
    operation = EVERY[name]
    parent = operation.path.split("/{")[0]
    path, body = prepared(shared, operation)
    if parent in FOREIGN:
        foreign = FOREIGN[parent](shared)
        path = operation.path.replace("{ids}", "{id}").format(id=foreign)
        if operation.is_bulk:
            body = [{**body[0], "id": foreign}]
    if parent == "/chatmsgs":
        path = f"/chatmsgs/{_message(shared)}"
    ordinary = Client(shared.simulator, shared.simulator.ordinary_user.api_key)
    answer = ordinary.ask(operation.method, path, json=body) if body else ordinary.ask(operation.method, path)
    assert answer.status_code == 403, answer.text
    assert answer.json() == {"message": "Access denied", "errors": []}


@pytest.mark.parametrize("name", [n for n, row in EVERY.items() if 404 in row.errors and row.parameters])
def test_what_is_unknown_is_404(name, shared):
    operation = EVERY[name]
    path = operation.path
    for parameter in operation.parameters:
        path = path.replace("{" + parameter + "}", "0" * 40 if parameter == "hash" else "999999999")
    answer = shared.ask(operation.method, path, json=GOOD.get(name, {}))
    assert answer.status_code == 404, answer.text


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_refused_naming_its_field(name, shared):
    operation = EVERY[name]
    path, _ = prepared(shared, operation)
    body, field = BAD[name]
    answer = shared.ask(operation.method, path, json=body)
    assert answer.status_code == 400, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert all(error.keys() == {"code", "field", "message"} for error in answer.json()["errors"])


def test_every_operation_with_a_400_and_a_body_has_a_bad_one_here():
    with_bodies = {n for n, row in EVERY.items() if 400 in row.errors and row.body is not None}
    # Logins and lead calls name no field, as observed (docs/platform.md#5-errors).
    assert with_bodies - BAD.keys() == {"POST /login", "POST /login2fa", "POST /leadcalls"}


@pytest.mark.parametrize("name", [n for n in EVERY if EVERY[n].response_kind in ("collection", "dictionary")])
def test_every_collection_pages_filters_groups_and_narrows(name, shared):
    path = EVERY[name].path
    if path == _LIVE:
        shared.play("plain_answered", until="connected")
    rows = shared.rows(path)
    key = next(iter(rows[0]))
    assert shared.get(path, limit=1, page=len(rows)).json() == {"data": rows[-1:], "total": len(rows)}
    wanted = json.dumps([{"property": key, "operator": "eq", "value": rows[0][key]}])
    assert shared.rows(path, filter=wanted) == [row for row in rows if row[key] == rows[0][key]]
    assert len(shared.rows(path, group_by=key)) == len({str(row[key]) for row in rows})
    # Everything a record shows may be sorted by, but what is an array or an object.
    for field in rows[0]:
        assert shared.get(path, sort=field, dir="DESC", limit=1).status_code == 200, field
    if EVERY[name].response_kind == "collection":
        fields = {f"fields[{path[1:]}]": key}
        assert shared.get(path, limit=1, **fields).json()["data"] == [{key: rows[0][key]}]


WRONG_DAYS = {"type": "W", "day_of_week": {}}
ODD = (None, 5, "", "x", "9" * 30, [], {}, [None], [{}], True, 1.5, [1], ["x"], WRONG_DAYS)


@pytest.fixture(scope="module")
def battered() -> Iterator[Client]:
    """One world for bodies nobody should send."""
    simulator = embed.start(seed=7, cdrs=200, start_at=START)
    yield Client(simulator, simulator.admin.api_key)
    simulator.stop()


@pytest.mark.parametrize("name", [n for n, row in EVERY.items() if row.body is not None])
def test_no_body_however_odd_makes_it_fail(name, battered):
    """Every field of a body with every odd value, one at a time, beside otherwise good ones."""
    operation = EVERY[name]
    path, good = prepared(battered, operation)
    base = dict((good[0] if operation.is_bulk else good) or {})
    for body in (b"null", b"[]", b"{}", b'"x"', b"5", b"[5]", b"{", b"[[]]", b"\xff", b""):
        assert battered.ask(operation.method, path, data=body).status_code < 500, body
    for field in [field.name for field in operation.body or ()] or list(base):
        for value in ODD:
            body = {**base, field: value}
            answer = battered.ask(operation.method, path, json=[body] if operation.is_bulk else body)
            assert answer.status_code < 500, (field, value)
    parent = operation.path.split("/{")[0]
    if any(row.path == parent and row.method == "GET" for row in OPERATIONS):
        assert battered.get(parent, limit=5000).status_code == 200
