"""Every operation of the catalogue: status, envelope, credentials, rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from integration.catalogue import OPERATIONS
from integration.catalogue.shapes import Operation
from integration.simulator import embed
from tests.comparison.operations import DOCUMENTED_OPERATIONS
from tests.comparison.record_fields import RECORD_FIELDS
from tests.support.payloads.operation_bodies import BAD, GOOD
from tests.support.simulator_client import START, Client

pytestmark = pytest.mark.exhaustive

EVERY = {operation.name: operation for operation in OPERATIONS}
DOCUMENTED = {operation.name: operation for operation in DOCUMENTED_OPERATIONS}
BY_NAME = pytest.mark.parametrize("name", EVERY)
# A seeded account has no live calls.
_LIVE = "/calls"


def make_request(client: Client, operation: Operation) -> tuple[str, Any]:
    """Return path and body of a request that must succeed."""
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
            return register(client, operation.name)
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
    """Return the id of a chat message of another user."""
    operators = {row["operator_id"] for row in client.rows("/chats")} - {client.simulator.ordinary_user.id}
    return int(client.rows(f"/users/{operators.pop()}/chatmsgs")[0]["id"])


def register(client: Client, name: str) -> str:
    body = {**GOOD["POST /registrations"], "company": name}
    response = client.session.post(client.simulator.url + "/registrations", json=body)
    return str(response.json()["data"]["hash"])


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


def run_account(cdrs: int) -> Iterator[Client]:
    simulator = embed.start(seed=7, cdrs=cdrs, start_at=START)
    yield Client(simulator, simulator.admin.api_key)
    simulator.stop()


@pytest.fixture(scope="module")
def shared() -> Iterator[Client]:
    """Account for reads and refused requests."""
    yield from run_account(1000)


@pytest.fixture(scope="module")
def written() -> Iterator[Client]:
    """Account for requests that create and change records."""
    yield from run_account(200)


@BY_NAME
def test_every_operation_of_an_administrator_has_the_declared_response(name, begin, shared, written):
    operation = EVERY[name]
    if operation.method == "DELETE" or name == "POST /logout":
        client = begin(cdrs=200, start_at=START)
    else:
        client = shared if operation.method == "GET" else written
    path, body = make_request(client, operation)
    response = (
        client.send(operation.method, path, json=body)
        if body is not None
        else client.send(operation.method, path)
    )
    assert response.status_code in DOCUMENTED[name].success, response.text
    check_envelope(operation, response)


def check_envelope(operation: Operation, response: requests.Response) -> None:
    if operation.response_kind == "file":
        assert response.content
        assert "json" not in response.headers["Content-Type"]
        return
    if response.status_code == 204:
        assert response.content == b""
        return
    shown = response.json()
    match operation.response_kind:
        case "collection" | "dictionary":
            assert isinstance(shown["data"], list)
            assert shown["total"] >= len(shown["data"])
            assert shown["data"] or operation.path == _LIVE, (
                "every collection of a seeded account has records"
            )
        case "item":
            assert isinstance(shown["data"], dict)
            assert isinstance(shown["links"], dict)
            _check_fields(operation.name, shown["data"])
        case "message":
            assert "message" in shown
        case "unknown":
            assert "message" in shown or "data" in shown


def _check_fields(name: str, record: dict[str, Any]) -> None:
    """Check that a record has all fields of the specification.

    The fields are read from the specification, because the simulator takes its fields from the catalogue.
    """
    assert not RECORD_FIELDS.get(DOCUMENTED[name].record, {}).keys() - record.keys()


@BY_NAME
def test_without_credentials_only_public_operations_succeed(name, shared):
    operation = EVERY[name]
    path = operation.path
    for parameter in operation.parameters:
        path = path.replace("{" + parameter + "}", "1")
    response = requests.request(operation.method, shared.simulator.url + path, json={}, timeout=30)
    assert (response.status_code != 401) == operation.is_public, response.text


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_body_is_refused_with_its_field(name, shared):
    operation = EVERY[name]
    path, _ = make_request(shared, operation)
    body, field = BAD[name]
    response = shared.send(operation.method, path, json=body)
    assert response.status_code == 400, response.text
    assert [error["field"] for error in response.json()["errors"]] == [field]
    assert all(error.keys() == {"code", "field", "message"} for error in response.json()["errors"])
