"""Reads from the mirror, read-through, and reads while the platform is unreachable.

Some tests send the requests of real clients.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests

from integration.catalogue import get_resource
from integration.mirror.records import schema_drift, single_record
from integration.mirror.sync_state import collection_state
from integration.settings.api_paths import list_base_paths
from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


def cdrs(*ids: int, **values: Any) -> list[dict[str, Any]]:
    return [{**CDR, "id": number, **values} for number in ids]


def test_collection_is_served_from_the_mirror_as_received_unless_no_cache_is_sent(app: TestApp) -> None:
    app.put("cdrs", CDR)
    response = app.get("/cdrs")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.data == b'{"data":[' + json.dumps(CDR, separators=(",", ":")).encode() + b'],"total":1}'
    assert int(response.headers["Content-Length"]) == len(response.data)
    assert response.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(response.headers["X-Mirror-Age"]) < 60
    assert "X-Next-Page" not in response.headers
    assert app.platform.count("/cdrs") == 0
    app.platform.respond("/cdrs", {"data": [], "total": 0})
    assert app.get("/cdrs", {**app.headers, "Cache-Control": "no-cache"}).json["total"] == 0


@pytest.mark.parametrize("digits", [100, 600_000])
def test_page_of_any_length_arrives_complete(app: TestApp, digits: int) -> None:
    app.put("cdrs", *cdrs(1, 2, info="7" * digits))
    response = requests.get(f"{app.url}{app.base}/cdrs", headers=app.headers, timeout=30)
    assert int(response.headers["Content-Length"]) == len(response.content)
    assert response.json() == {"data": cdrs(1, 2, info="7" * digits), "total": 2}


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (("users", "eq", 1000005), [1, 2]),
        (("users", "eq", "1000005"), [1, 2]),
        (("users", "eq", 100000), []),
        (("users", "in", [1000005, 1000007]), [1, 2, 3]),
        (("users", "ne", 1000005), [3, 4]),
        (("users", "eq", None), [5]),
        (("ddis", "eq", "442079460001"), [1]),
        (("ddis", "in", ["442079460001", "442079460002"]), [1, 2]),
        (("tags", "eq", "a"), [1]),
        (("tags", "eq", "b"), [4]),
        (("name", "eq", "[1000005]"), [2]),
        (("name", "eq", 1000005), []),
    ],
)
def test_a_filter_on_a_list_compares_its_members(
    app: TestApp, condition: tuple[str, str, Any], ids: list[int]
) -> None:
    app.put(
        "ringgroups",
        {"id": 1, "name": "A", "users": [1000005, 1000006], "ddis": ["442079460001"], "tags": ["a", "c"]},
        {"id": 2, "name": "[1000005]", "users": ["1000005"], "ddis": ["442079460002"], "tags": [{"id": "a"}]},
        {"id": 3, "name": "C", "users": [1000007], "ddis": []},
        {"id": 4, "name": "D", "users": [], "tags": "b"},
        {"id": 5, "name": "E", "tags": "[broken"},
    )
    name, operator, value = condition
    text = json.dumps([{"property": name, "operator": operator, "value": value}])
    response = app.get(f"/ringgroups?filter={quote(text)}")
    assert ([row["id"] for row in response.json["data"]], response.json["total"]) == (ids, len(ids))


def test_internal_error_states_the_next_step_and_no_detail(
    own_app: TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    own_app.put("cdrs", CDR)
    own_app.mirror_db.write(lambda tx: tx.execute("DROP TABLE _walks"))
    response = own_app.get("/cdrs")
    assert response.status_code == 500
    assert response.json["errors"] == []
    assert response.json["message"].startswith("Switchroom failed on this request")
    assert "the log of the server has the cause" in response.json["message"]
    assert "Before you retry a write" in response.json["message"]
    assert "_walks" not in response.json["message"]
    assert "no such table: _walks" in caplog.text


def test_collection_never_synced_is_read_through_and_stored(app: TestApp) -> None:
    app.platform.respond("/cdrs", read_fixture("response-cdrs-list-200"))
    response = app.get("/cdrs?limit=1")
    assert response.json == read_fixture("response-cdrs-list-200")
    assert "X-Mirror-Age" not in response.headers
    assert app.platform.requests[-1].query == {"limit": ["1"]}
    with app.mirror_db.read() as connection:
        stored = single_record.find_record(connection, get_resource("cdrs"), CDR["id"])
    assert stored is not None
    assert json.loads(stored.doc) == CDR


def test_collection_never_synced_is_502_or_incomplete_during_an_outage(app: TestApp) -> None:
    app.platform.fail()
    assert app.get("/cdrs").status_code == 502
    app.put("cdrs", CDR, complete=False)
    response = app.get("/cdrs")
    assert response.json["total"] == 1
    assert response.headers["X-Mirror-Complete"] == "false"


def test_record_missing_in_the_mirror_is_read_through_or_502(app: TestApp) -> None:
    app.platform.respond("/cdrs/700000001", {"data": CDR, "links": {}})
    assert app.get("/cdrs/700000001").json["data"] == CDR
    app.platform.fail()
    assert app.get("/cdrs/700000001").json["data"] == CDR
    assert app.get("/cdrs/700000002").status_code == 502


@pytest.mark.parametrize("e164", ["442079460001", "+442079460001"])
def test_a_number_is_found_by_its_digits(app: TestApp, e164: str) -> None:
    app.put("ddis", {"id": 5, "e164": e164, "name": "Main"})
    assert [app.get(f"/ddis/{sign}442079460001").json["data"]["id"] for sign in ("", "+")] == [5, 5]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/cdrs?page=x", 400),
        ("/cdrs?sort=id%22%3B", 400),
        ("/nothing", 404),
        ("/", 404),
        ("", 404),
        ("/../../etc/passwd", 404),
        ("//cdrs", 404),
    ],
)
def test_errors_have_a_message_and_a_list_of_errors(app: TestApp, path: str, status: int) -> None:
    app.put("cdrs", CDR)
    response = app.get(path)
    assert response.status_code == status
    assert set(response.json) == {"message", "errors"}
    assert isinstance(response.json["message"], str)


def test_wrong_method_is_405_with_the_allowed_methods_and_options_lists_them(app: TestApp) -> None:
    response = app.client.post(f"{app.base}/cdrs", headers=app.add_key("w", "write"))
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"
    assert app.client.put(f"{app.base}/cdrs", headers=app.headers).json["errors"] == []
    options = app.client.options(f"{app.base}/calls/7")
    assert (options.status_code, options.data) == (204, b""), "without credentials"
    assert options.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"


@pytest.mark.parametrize("method", ["PUT", "TRACE", "LINK", "QUERY"])
@pytest.mark.parametrize("path", ["/cdrs", "/cdrs/7", "/nothing"])
def test_unknown_http_method_is_405_as_json(app: TestApp, method: str, path: str) -> None:
    response = app.client.open(app.base + path, method=method, headers=app.add_key(method + path, "write"))
    assert (response.status_code, response.json["errors"]) == (405, [])
    assert "GET" in response.headers["Allow"].split(", ")
    assert app.client.open(app.base + path, method=method).status_code == 401
    assert app.platform.requests == []


def test_collection_is_served_at_every_base_path(app: TestApp) -> None:
    app.put("cdrs", CDR)
    assert list_base_paths(app.context.settings) == ("/v1.1/voipstudio", "/v1.2/voipstudio", "/v1.1", "/v1.2")
    for base in list_base_paths(app.context.settings):
        assert app.client.get(f"{base}/cdrs", headers=app.headers).json["total"] == 1


def test_me_of_a_local_key_shows_no_sip_credentials(app: TestApp) -> None:
    response = app.get("/me")
    assert response.json["data"]["id"] == 1000001
    assert not [name for name in response.json["data"] if name.startswith("sip_")]
    assert b"invented-sip-secret" not in response.data
    with app.mirror_db.read() as connection:
        assert "sip_" not in connection.execute("SELECT _doc FROM me").fetchone()[0]
    app.platform.fail()
    assert app.get("/me").json["data"]["id"] == 1000001


def test_pins_are_masked_for_local_keys_in_lists_records_and_read_through(app: TestApp) -> None:
    user = {"id": 1, "first_name": "Ann", "vm_pin": "4711", "ext": "1001"}
    app.platform.respond("/users/1", {"data": user, "links": {}})
    app.platform.respond("/users/1/audio", {"data": {"vm_pin": "4711"}})
    app.platform.respond("/me", {"data": {**user, "id": 1000001}, "links": {}})
    app.put("users", user)
    for path in ("/users", "/users/1", "/users/1", "/users/1/audio", "/me", "/me"):
        response = app.get(path)
        assert (response.status_code, b"4711" in response.data) == (200, False), path
    assert app.get('/users?filter=[{"property":"vm_pin","operator":"like","value":"47"}]').status_code == 400


def test_unknown_paths_are_passed_through(app: TestApp) -> None:
    app.platform.respond("/faxes/7", {"data": {"id": 7}})
    assert app.get("/faxes/7?a=b").json == {"data": {"id": 7}}
    assert app.platform.requests[-1].query == {"a": ["b"]}


class TestCors:
    @pytest.fixture(scope="class")
    @classmethod
    def app(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
        folder = tmp_path_factory.mktemp("cors")
        with running_app(folder, facade__cors_origins="https://crm.example.com") as app:
            yield app

    def test_preflight_needs_no_credentials(self, app: TestApp) -> None:
        response = app.client.options(
            f"{app.base}/calls/5",
            headers={
                "Origin": "https://crm.example.com",
                "Access-Control-Request-Method": "PATCH",
                "Access-Control-Request-Headers": "content-type,x-auth-token,x-requested-with",
            },
        )
        assert response.status_code == 204
        assert response.headers["Access-Control-Allow-Origin"] == "https://crm.example.com"
        assert "PATCH" in response.headers["Access-Control-Allow-Methods"]
        allowed = response.headers["Access-Control-Allow-Headers"]
        assert allowed == "content-type,x-auth-token,x-requested-with"
        assert "Access-Control-Request-Headers" in response.vary

    def test_other_origin_gets_no_cors_header(self, app: TestApp) -> None:
        headers = {"Origin": "https://evil.example", "Access-Control-Request-Headers": "x-auth-token"}
        response = app.client.options(f"{app.base}/cdrs", headers=headers)
        assert not [name for name, _ in response.headers if name.startswith("Access-Control-Allow-")]


def test_secrets_in_undocumented_fields_are_masked_and_other_fields_kept(own_app: TestApp) -> None:
    schema_drift.register_hooks(own_app.mirror_db, collection_state.is_complete)
    strange = {"id": 1, "sip_call_id": "kept", "note": 1.50, "phone": [{"sip_password": "canary"}]}
    user = {"id": 2, "users": [{"id": 7, "vm_pin": "canary"}]}
    own_app.put("cdrs", {"id": 2, "sip_call_id": "kept"}, {**strange, "password": "canary"})
    own_app.put("queues", user)
    for path in ("/cdrs", "/cdrs/1", "/queues", "/queues/2"):
        response = own_app.get(path)
        assert response.status_code == 200
        assert b"canary" not in response.data
    (first, second) = own_app.get("/cdrs").json["data"]
    assert first == {**strange, "phone": [{"sip_password": None}], "password": None}
    assert second == {"id": 2, "sip_call_id": "kept"}
