"""The OpenAPI document and the page that shows it, against the routes that really answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import OPERATIONS, list_methods, match
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.facade import reference
from integration.facade.blueprint import list_base_paths
from integration.facade.exposure import UNDOCUMENTED_METHODS as BEYOND_METHODS
from integration.facade.openapi import build_document
from tests.support.application import TestApp
from tests.support.fake_exchange import FIXTURES

EXAMPLES = {"id": "7", "ids": "7,8", "e164": "442079460001", "hash": "abc", "areacode": "20"}


@pytest.fixture(scope="module")
def api() -> dict[str, Any]:
    return build_document(("/v1.2/voipstudio",), 5000)


def named(api: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def filled(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda name: EXAMPLES.get(name[1], "x"), path)


def test_every_operation_is_in_the_document_and_the_reverse(api: dict[str, Any]) -> None:
    described = {f"{method} {path}" for method, path, _ in named(api)}
    assert described == {operation.name for operation in (*OPERATIONS, *UNDOCUMENTED_OPERATIONS)}
    assert len(OPERATIONS) == 165


@pytest.mark.exhaustive
def test_every_route_answers_what_the_document_names_and_nothing_else_is_allowed(
    api: dict[str, Any], app: TestApp
) -> None:
    """Asked with real requests: what is described is passed on or answered, what isn't is 405."""
    app.platform.respond("*", {"data": [], "total": 0})
    headers = app.add_key("openapi", "write")
    by_path: dict[str, set[str]] = {}
    for method, path, _ in named(api):
        # One record is also a list of one: /contacts/{id} and /contacts/{ids} are the same place.
        by_path.setdefault(filled(path).replace("7,8", "7"), set()).add(method)
    for path, methods in by_path.items():
        for method in ("GET", "POST", "PATCH", "DELETE"):
            answer = app.client.open(app.base + path, method=method, headers=headers, json={})
            if method in methods:
                assert answer.status_code != 405, (method, path)
            elif list_methods(path) and (method, path.split("/")[1]) not in BEYOND_METHODS:
                assert answer.status_code == 405, (method, path)


def test_a_path_of_the_document_leads_to_its_own_operation(api: dict[str, Any]) -> None:
    beyond = {operation.name for operation in UNDOCUMENTED_OPERATIONS}
    for method, path, operation in named(api):
        found = match(method, filled(path))
        if operation["operationId"] in beyond:
            assert found is None
        else:
            assert found is not None
            assert found[0].name == f"{method} {path}"
            assert [p["name"] for p in operation["parameters"] if p["in"] == "path"] == list(found[1])


def test_files_of_the_archive_are_described_with_their_parts(api: dict[str, Any]) -> None:
    partial = {path for method, path, operation in named(api) if "206" in operation["responses"]}
    assert partial == {
        "/monitors/{id}.mp3",
        "/voicemessages/{id}.mp3",
        "/cdrs/{id}.trace",
        "/cdrs/{id}.pcap",
        "/msdrs/{id}.trace",
        "/msdrs/{id}.pcap",
        "/faxes/{id}.pdf",
    }
    for path in partial:
        operation = api["paths"][path]["get"]
        assert "416" in operation["responses"]
        assert "Range" in [parameter["name"] for parameter in operation["parameters"]]


def test_the_document_is_built_once_at_its_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []

    def count(*arguments: Any) -> dict[str, Any]:
        built.append(arguments)
        return build_document(*arguments)

    monkeypatch.setattr(reference, "build_document", count)
    facade = reference.Reference(("/v1.2/voipstudio",), 5000)
    assert built == []
    assert facade.openapi().data == facade.openapi().data
    assert built == [(("/v1.2/voipstudio",), 5000)]


def test_every_reference_leads_somewhere(api: dict[str, Any]) -> None:
    text = json.dumps(api)
    for target in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        place: Any = api
        for part in target.split("/"):
            place = place[part]
        assert place


def test_a_client_generator_can_read_it(api: dict[str, Any]) -> None:
    # Takes a second to import, and every worker imports every file.
    import schemathesis

    schema = schemathesis.openapi.from_dict(api)
    assert schema.specification.version == "3.1.0"
    loaded = [result.ok().label for result in schema.get_all_operations()]
    assert len(loaded) == len(list(named(api)))


def test_examples_are_the_fixtures(api: dict[str, Any]) -> None:
    fixtures = [json.loads(path.read_text()) for path in Path(FIXTURES).glob("*.json")]
    shown = [
        content["example"]
        for _, _, operation in named(api)
        for answer in [*operation["responses"].values(), operation.get("requestBody", {})]
        for content in answer.get("content", {}).values()
        if "example" in content
    ]
    assert len(shown) > 20
    assert all(example in fixtures for example in shown)


def test_it_is_served_with_the_base_paths_of_this_installation(app: TestApp) -> None:
    answer = app.client.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert [server["url"] for server in answer.json["servers"]] == list(list_base_paths(app.context))


def test_the_page_shows_every_operation_and_loads_nothing_from_elsewhere(
    app: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = app.client.get("/docs").text
    for operation in (*OPERATIONS, *UNDOCUMENTED_OPERATIONS):
        assert f'id="{operation.name.replace(" ", "-")}"' in page
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert loaded
    assert all(target.startswith(("/", "data:")) for target in loaded)
    assert "<script" not in page
    assert "style=" not in page
