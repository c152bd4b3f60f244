"""Every GET of the specification: equal responses of facade and platform."""

from __future__ import annotations

import csv
import io

import pytest

from integration.catalogue import OPERATIONS
from tests.simulator.test_operations import make_request
from tests.support.applications.platform_pair import Pair, drop_volatile, parse_body
from tests.support.harness import wait_for
from tests.support.simulator_client import Client

pytestmark = pytest.mark.exhaustive

READS = {operation.name: operation for operation in OPERATIONS if operation.method == "GET"}
BY_NAME = pytest.mark.parametrize("name", READS)


@BY_NAME
def test_administrator_receives_equal_responses(name: str, pair: Pair) -> None:
    operation = READS[name]
    path, _ = make_request(pair.platform, operation)
    if path.startswith("/calls") or path.endswith("/calls"):
        _wait_for_live_call(pair, path)
    # The page size without a limit is not specified: all records here, 25 in the simulator.
    params = {"limit": "5000"} if operation.response_kind in ("collection", "dictionary", "unknown") else {}
    if "call" in path and operation.resource == "call":
        # Fields of a live call that its webhook lacks arrive with the next live poll.
        wait_for(
            lambda: (
                drop_volatile(parse_body(operation, pair.facade.get(path, **params)))
                == drop_volatile(parse_body(operation, pair.platform.get(path, **params)))
            ),
            f"all of {path} in the mirror",
        )
    actual, expected = pair.facade.get(path, **params), pair.platform.get(path, **params)
    assert actual.status_code == expected.status_code, actual.text
    if path.endswith(".csv"):
        # The columns are not specified. The facade returns the documented fields.
        assert _ids(actual.text) == _ids(expected.text)
    elif path == "/ping":
        assert actual.json()["data"]["response"] == expected.json()["data"]["response"]
    elif "call" in path and operation.resource == "call":
        assert drop_volatile(parse_body(operation, actual)) == drop_volatile(parse_body(operation, expected))
    else:
        assert parse_body(operation, actual) == parse_body(operation, expected)


def _wait_for_live_call(pair: Pair, path: str) -> None:
    """Wait until the mirror has applied the webhook of the live call."""
    leg = path.split("/")[2] if path.count("/") > 1 and path.startswith("/calls") else None
    if leg is None:
        pair.platform.play("plain_answered", user="1002", until="connected")
    collection = path if leg is None else f"/calls/{leg}"

    def is_equal() -> bool:
        actual, expected = pair.facade.get(collection), pair.platform.get(collection, limit="5000")
        return bool(actual.status_code == expected.status_code and _read_ids(actual) == _read_ids(expected))

    wait_for(is_equal, "the live call in the mirror")


def _read_ids(response: object) -> object:
    data = response.json().get("data")  # type: ignore[attr-defined]
    return [row["id"] for row in data] if isinstance(data, list) else data and data["id"]


def _ids(text: str) -> list[str]:
    return sorted(row["id"] for row in csv.DictReader(io.StringIO(text, newline="")))


@BY_NAME
def test_ordinary_user_receives_equal_responses(name: str, pair: Pair) -> None:
    operation = READS[name]
    path, _ = make_request(pair.platform, operation)
    person = pair.platform.simulator.ordinary_user
    actual = Client(pair.facade.simulator, person.api_key).get(path)
    expected = Client(pair.platform.simulator, person.api_key).get(path)
    assert actual.status_code == expected.status_code
    if path != "/ping":
        assert drop_volatile(parse_body(operation, actual)) == drop_volatile(parse_body(operation, expected))


@pytest.mark.parametrize("name", [n for n, row in READS.items() if row.parameters and not row.is_public])
def test_unknown_ids_return_equal_statuses(name: str, pair: Pair) -> None:
    path = READS[name].path
    for parameter in READS[name].parameters:
        path = path.replace("{" + parameter + "}", "999999999")
    expected, actual = pair.both("GET", path)
    assert actual.status_code == expected.status_code, (actual.text, expected.text)
