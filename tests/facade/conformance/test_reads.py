"""Every GET of the specification, asked of the platform and of the facade in front of it, answers alike."""

from __future__ import annotations

import csv
import io

import pytest

from integration.catalogue import OPERATIONS
from tests.simulator.test_operations import prepared
from tests.support.applications.platform_pair import Pair, parse_body, steady
from tests.support.harness import wait_for
from tests.support.simulator_client import Client

pytestmark = pytest.mark.exhaustive

READS = {operation.name: operation for operation in OPERATIONS if operation.method == "GET"}
BY_NAME = pytest.mark.parametrize("name", READS)


@BY_NAME
def test_an_administrator_is_answered_alike(name: str, pair: Pair) -> None:
    operation = READS[name]
    path, _ = prepared(pair.platform, operation)
    if path.startswith("/calls") or path.endswith("/calls"):
        _once_known(pair, path)
    # How many come without a limit is not specified: here all, in the simulator 25.
    params = {"limit": "5000"} if operation.response_kind in ("collection", "dictionary", "unknown") else {}
    if operation.resource in ("media_session", "msdr") and operation.response_kind == "collection":
        # A live call makes more of them, and no webhook tells: it is here with the next look-back.
        wait_for(
            lambda: (
                parse_body(operation, pair.facade.get(path, **params))
                == parse_body(operation, pair.platform.get(path, **params))
            ),
            f"all of {path} in the mirror",
        )
    if "call" in path and operation.resource == "call":
        # What its webhook does not tell of a live call comes with the next poll.
        wait_for(
            lambda: (
                steady(parse_body(operation, pair.facade.get(path, **params)))
                == steady(parse_body(operation, pair.platform.get(path, **params)))
            ),
            f"all of {path} in the mirror",
        )
    ours, theirs = pair.facade.get(path, **params), pair.platform.get(path, **params)
    assert ours.status_code == theirs.status_code, ours.text
    if path.endswith(".csv"):
        # Their columns are not specified; ours are the documented fields.
        assert _ids(ours.text) == _ids(theirs.text)
    elif path == "/ping":
        assert ours.json()["data"]["response"] == theirs.json()["data"]["response"]
    elif "call" in path and operation.resource == "call":
        assert steady(parse_body(operation, ours)) == steady(parse_body(operation, theirs))
    else:
        assert parse_body(operation, ours) == parse_body(operation, theirs)


def _once_known(pair: Pair, path: str) -> None:
    """A live call is told by a webhook, which is on its way."""
    leg = path.split("/")[2] if path.count("/") > 1 and path.startswith("/calls") else None
    if leg is None:
        pair.platform.play("plain_answered", user="1002", until="connected")
    collection = path if leg is None else f"/calls/{leg}"

    def same() -> bool:
        ours, theirs = pair.facade.get(collection), pair.platform.get(collection, limit="5000")
        return bool(ours.status_code == theirs.status_code and _known(ours) == _known(theirs))

    wait_for(same, "the live call in the mirror")


def _known(answer: object) -> object:
    data = answer.json().get("data")  # type: ignore[attr-defined]
    return [row["id"] for row in data] if isinstance(data, list) else data and data["id"]


def _ids(text: str) -> list[str]:
    return sorted(row["id"] for row in csv.DictReader(io.StringIO(text, newline="")))


@BY_NAME
def test_an_ordinary_user_is_answered_alike(name: str, pair: Pair) -> None:
    operation = READS[name]
    path, _ = prepared(pair.platform, operation)
    person = pair.platform.simulator.ordinary_user
    ours = Client(pair.facade.simulator, person.api_key).get(path)
    theirs = Client(pair.platform.simulator, person.api_key).get(path)
    assert ours.status_code == theirs.status_code
    if path != "/ping":
        assert steady(parse_body(operation, ours)) == steady(parse_body(operation, theirs))


@pytest.mark.parametrize("name", [n for n, row in READS.items() if row.parameters and not row.is_public])
def test_what_is_unknown_is_answered_alike(name: str, pair: Pair) -> None:
    path = READS[name].path
    for parameter in READS[name].parameters:
        path = path.replace("{" + parameter + "}", "999999999")
    theirs, ours = pair.both("GET", path)
    assert ours.status_code == theirs.status_code, (ours.text, theirs.text)


@BY_NAME
def test_head_is_get_without_a_body(name: str, pair: Pair) -> None:
    operation = READS[name]
    path, _ = prepared(pair.platform, operation)
    got, head = pair.facade.ask("GET", path), pair.facade.ask("HEAD", path)
    assert head.status_code == got.status_code
    assert head.content == b""
