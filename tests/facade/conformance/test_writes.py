"""Every write of the specification: equal response and equal effect.

One simulator receives the write directly, its twin receives it through the facade.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from integration.catalogue import OPERATIONS, match
from integration.catalogue.shapes import Operation
from integration.facade.exposure import EXPOSURE, Exposure
from tests.simulator.test_operations import make_request
from tests.support.applications.platform_pair import Twins, parse_body
from tests.support.harness import wait_for
from tests.support.simulator_client import Client

pytestmark = pytest.mark.exhaustive

# Deleted last, because other records belong to them.
LAST = ("DELETE /users/{id}", "DELETE /customers/{id}")


def _sort_key(operation: Operation) -> tuple[bool, bool, bool, bool]:
    deletes = operation.method == "DELETE"
    first = operation.path == "/callmeback/buttons/{id}"
    return (operation.name in LAST, deletes, deletes and not operation.parameters, not first)


WRITES = {
    operation.name: operation
    for operation in sorted(OPERATIONS, key=lambda row: (*_sort_key(row), row.name))
    # Logging out would end the credentials of both.
    if operation.method != "GET" and operation.name != "POST /logout"
}


@pytest.mark.parametrize("name", [name for name in WRITES if name not in LAST])
def test_write_has_equal_response_and_effect(name: str, twins: Twins) -> None:
    operation = WRITES[name]
    requests_ = [make_request(_direct(client), operation) for client in (twins.platform, twins.facade)]
    (path, body), (other_path, other_body) = requests_
    if EXPOSURE[name] is not Exposure.PUBLIC:
        assert path == other_path
    expected = twins.platform.send(operation.method, path, json=body)
    actual = twins.facade.send(operation.method, other_path, json=other_body)
    assert actual.status_code == expected.status_code, (actual.text, expected.text)
    assert actual.status_code in operation.success
    if EXPOSURE[name] is not Exposure.PUBLIC:
        assert parse_body(operation, actual) == parse_body(operation, expected)
    _compare_effect(twins, operation, path)


def _direct(client: Client) -> Client:
    """Client of the simulator itself, for the records that a request needs."""
    simulator = getattr(client.simulator, "simulator", client.simulator)
    return Client(simulator, client.token)


def _compare_effect(twins: Twins, operation: Operation, path: str) -> None:
    """Compare the collection of both simulators and of the facade."""
    collection = _collection(path)
    if collection is None:
        return
    expected = _rows(_direct(twins.facade), collection)
    if 202 in operation.success or collection == "/calls":
        wait_for(lambda: _rows(twins.facade, collection) == expected, f"{collection} followed up")
    assert _rows(twins.facade, collection) == expected
    assert expected == _rows(twins.platform, collection)


def _collection(path: str) -> str | None:
    segments = path.strip("/").split("/")
    for candidate in ("/" + "/".join(segments[:2]), "/" + segments[0]):
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
def test_invalid_body_is_rejected_with_equal_responses(name: str, twins: Twins) -> None:
    operation = WRITES[name]
    path = operation.path
    for parameter in operation.parameters:
        path = path.replace("{" + parameter + "}", "999999999")
    expected, actual = twins.both(operation.method, path, json={"nothing": [1]})
    assert (actual.status_code, json.loads(actual.content)) == (
        expected.status_code,
        json.loads(expected.content),
    )


@pytest.mark.parametrize("name", LAST)
def test_deletion_of_user_and_customer_returns_equal_responses(name: str, twins: Twins) -> None:
    path, _ = make_request(_direct(twins.facade), WRITES[name])
    expected, actual = twins.both("DELETE", path)
    assert (actual.status_code, actual.content) == (expected.status_code, expected.content)
