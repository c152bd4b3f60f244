"""Every write, sent to one simulator and through the facade to its twin: the same answer, the same effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.catalogue import OPERATIONS, match
from integration.catalogue.shapes import Operation
from integration.facade.exposure import EXPOSURE, Exposure
from tests.simulator.test_operations import prepared
from tests.support.applications.platform_pair import Twins, parse_body
from tests.support.harness import wait_for
from tests.support.simulator_client import Client

pytestmark = pytest.mark.exhaustive

# Logging out would end the credentials of both. A record is deleted before what it belongs to.
LAST = ("DELETE /users/{id}", "DELETE /customers/{id}")


def _when(operation: Operation) -> tuple[bool, bool, bool, bool]:
    deletes = operation.method == "DELETE"
    first = operation.path == "/callmeback/buttons/{id}"
    return (operation.name in LAST, deletes, deletes and not operation.parameters, not first)


WRITES = {
    operation.name: operation
    for operation in sorted(OPERATIONS, key=lambda row: (*_when(row), row.name))
    if operation.method != "GET" and operation.name != "POST /logout"
}


@pytest.mark.parametrize("name", [name for name in WRITES if name not in LAST])
def test_a_write_is_answered_and_done_alike(name: str, twins: Twins) -> None:
    operation = WRITES[name]
    requests_ = [prepared(_direct(client), operation) for client in (twins.platform, twins.facade)]
    (path, body), (other_path, other_body) = requests_
    if EXPOSURE[name] is not Exposure.PUBLIC:
        assert path == other_path
    theirs = twins.platform.ask(operation.method, path, json=body)
    ours = twins.facade.ask(operation.method, other_path, json=other_body)
    assert ours.status_code == theirs.status_code, (ours.text, theirs.text)
    assert ours.status_code in operation.success
    if EXPOSURE[name] is not Exposure.PUBLIC:
        assert parse_body(operation, ours) == parse_body(operation, theirs)
    _compare_effect(twins, operation, path)


def _direct(client: Client) -> Client:
    """What a request needs is looked up at the simulator itself."""
    simulator = getattr(client.simulator, "simulator", client.simulator)
    return Client(simulator, client.token)


def _compare_effect(twins: Twins, operation: Operation, path: str) -> None:
    """The collection, as the platform lists it and as the facade does."""
    collection = _collection(path)
    if collection is None:
        return
    theirs = _rows(_direct(twins.facade), collection)
    if 202 in operation.success or collection == "/calls":
        wait_for(lambda: _rows(twins.facade, collection) == theirs, f"{collection} followed up")
    assert _rows(twins.facade, collection) == theirs
    assert theirs == _rows(twins.platform, collection)


def _collection(path: str) -> str | None:
    parts = path.strip("/").split("/")
    for candidate in ("/" + "/".join(parts[:2]), "/" + parts[0]):
        found = match("GET", candidate)
        if found and found[0].response_kind == "collection":
            return candidate
    return None


def _rows(client: Client, path: str) -> list[dict[str, Any]]:
    rows = client.rows(path)
    return [{k: v for k, v in row.items() if k != "duration"} for row in rows] if path == "/calls" else rows


@pytest.mark.parametrize(
    "name", [n for n, row in WRITES.items() if row.body is not None and not row.is_public]
)
def test_a_body_that_is_refused_is_refused_alike(name: str, twins: Twins) -> None:
    operation = WRITES[name]
    path = operation.path
    for parameter in operation.parameters:
        path = path.replace("{" + parameter + "}", "999999999")
    theirs, ours = twins.both(operation.method, path, json={"nothing": [1]})
    assert (ours.status_code, json.loads(ours.content)) == (theirs.status_code, json.loads(theirs.content))


@pytest.mark.parametrize("name", LAST)
def test_what_can_not_be_undone_comes_last(name: str, twins: Twins) -> None:
    path, _ = prepared(_direct(twins.facade), WRITES[name])
    theirs, ours = twins.both("DELETE", path)
    assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
