"""Reads: from the mirror, read through, and while the platform is away. Real clients' requests among them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from integration.catalogue import get_resource
from integration.facade.blueprint import list_base_paths
from integration.mirror.records import schema_drift, single_record
from integration.mirror.sync_state import collection_state
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


def cdrs(*ids: int, **values: Any) -> list[dict[str, Any]]:
    return [{**CDR, "id": number, **values} for number in ids]


def test_a_collection_comes_from_the_mirror_exactly_as_received(app: TestApp) -> None:
    app.put("cdrs", CDR)
    answer = app.get("/cdrs")
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.data == b'{"data":[' + json.dumps(CDR, separators=(",", ":")).encode() + b'],"total":1}'
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    assert answer.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(answer.headers["X-Mirror-Age"]) < 60
    assert "X-Next-Page" not in answer.headers
    assert app.platform.count("/cdrs") == 0


def test_an_item_comes_from_the_mirror_with_links(app: TestApp) -> None:
    app.put("cdrs", CDR)
    answer = app.get(f"/cdrs/{CDR['id']}")
    assert answer.json == {"data": CDR, "links": {}}
    assert answer.headers["X-Mirror-Complete"] == "true"


def test_an_unknown_record_of_a_complete_collection_is_404_even_when_the_platform_is_away(
    app: TestApp,
) -> None:
    app.put("cdrs", CDR)
    app.platform.fail()
    answer = app.get("/cdrs/5")
    assert answer.status_code == 404
    assert answer.json["errors"] == []
    assert app.get("/cdrs/99999999999999999999").status_code == 404


def test_an_internal_error_states_what_failed_and_what_to_do_and_no_detail(
    app: TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    app.put("cdrs", CDR)
    app.mirror_db.write(lambda tx: tx.execute("DROP TABLE _walks"))
    answer = app.get("/cdrs")
    assert answer.status_code == 500
    assert answer.json["errors"] == []
    assert answer.json["message"].startswith("Switchroom failed on this request")
    assert "the log of the server has the cause" in answer.json["message"]
    assert "Before you retry a write" in answer.json["message"]
    assert "_walks" not in answer.json["message"]
    assert "no such table: _walks" in caplog.text


def test_a_collection_never_walked_is_read_through_and_kept(app: TestApp) -> None:
    app.platform.respond("/cdrs", read_fixture("response-cdrs-list-200"))
    answer = app.get("/cdrs?limit=1")
    assert answer.json == read_fixture("response-cdrs-list-200")
    assert "X-Mirror-Age" not in answer.headers
    assert app.platform.requests[-1].query == {"limit": ["1"]}
    with app.mirror_db.read() as connection:
        stored = single_record.find_record(connection, get_resource("cdrs"), CDR["id"])
    assert stored is not None
    assert json.loads(stored.doc) == CDR


def test_empty_because_never_read_is_not_mistaken_for_empty(app: TestApp) -> None:
    app.platform.fail()
    assert app.get("/cdrs").status_code == 502
    app.put("cdrs", CDR, complete=False)
    answer = app.get("/cdrs")
    assert answer.json["total"] == 1
    assert answer.headers["X-Mirror-Complete"] == "false"


def test_a_live_call_nobody_has_told_of_yet_is_asked_for(app: TestApp) -> None:
    app.put("calls")
    call = {"id": 4278000101, "state": "RINGING"}
    app.platform.respond("/calls/4278000101", {"data": call, "links": {}})
    assert app.get("/calls/4278000101").json["data"] == call
    assert app.get("/calls/4278000102").status_code == 404
    app.platform.fail()
    assert app.get("/calls/4278000102").status_code == 404


def test_a_record_not_mirrored_yet_is_read_through_or_502(app: TestApp) -> None:
    app.platform.respond("/cdrs/700000001", {"data": CDR, "links": {}})
    assert app.get("/cdrs/700000001").json["data"] == CDR
    app.platform.fail()
    assert app.get("/cdrs/700000001").json["data"] == CDR
    assert app.get("/cdrs/700000002").status_code == 502


def test_no_cache_reads_through(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.platform.respond("/cdrs", {"data": [], "total": 0})
    assert app.get("/cdrs", {**app.headers, "Cache-Control": "no-cache"}).json["total"] == 0


def test_records_gone_from_the_platform_are_404(app: TestApp) -> None:
    app.put("cdrs", CDR)
    app.mirror_db.write(
        lambda tx: single_record.mark_missing(tx, get_resource("cdrs"), [CDR["id"]], "2026-09-03 00:00:00")
    )
    assert app.get(f"/cdrs/{CDR['id']}").status_code == 404
    assert app.get("/cdrs").json == {"data": [], "total": 0}


def test_the_singer_tap_gets_all_it_asks_for_when_the_limit_is_raised(settings: dict, app: TestApp) -> None:
    app.put("cdrs", *cdrs(*range(1, 12)))
    answer = app.get("/cdrs?page=1&limit=10000", {**app.headers, "User-Agent": "python-requests/2.32"})
    assert answer.status_code == 200
    assert len(answer.json["data"]) == 11
    assert "X-Next-Page" not in answer.headers


def test_the_data_studio_connector_gets_its_strict_bounds(app: TestApp) -> None:
    app.put(
        "cdrs",
        *cdrs(1, calldate="2026-09-01 00:00:00"),
        *cdrs(2, calldate="2026-09-01 00:00:01"),
        *cdrs(3, calldate="2026-09-02 23:59:58"),
        *cdrs(4, calldate="2026-09-02 23:59:59"),
    )
    bounds = (
        '[{operator:"gt",property:"calldate",value:"2026-09-01 00:00:00"},'
        '{operator:"lt",property:"calldate",value:"2026-09-02 23:59:59"}]'
    )
    for name in ("operator", "property", "value"):
        bounds = bounds.replace(f"{name}:", f'"{name}":')
    encoded = quote(bounds).replace("%20", "+")
    user, secret = basic_headers(app)
    answer = app.client.get(
        f"/v1.2/voipstudio/cdrs?page=1&limit=5000&filter={encoded}",
        auth=(user, secret),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200
    assert [record["id"] for record in answer.json["data"]] == [2, 3]
    assert answer.json["total"] == 2
    assert type(answer.json["total"]) is int


def basic_headers(app: TestApp) -> tuple[str, str]:
    from integration.access import keys

    user, secret = keys.add(app.app_db, "basic", "read")
    return str(user), secret


def test_the_command_line_client_lists(app: TestApp) -> None:
    app.put(
        "monitors",
        *[{**read_fixture("response-monitors-list-200")["data"][0], "id": n} for n in range(1, 60)],
    )
    answer = app.get("/monitors?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC")
    assert [record["id"] for record in answer.json["data"]] == list(range(59, 34, -1))
    assert answer.json["total"] == 59
    page_past_the_end = app.get("/monitors?limit=100&page=2&filter=%5B%5D&sort=id&dir=DESC")
    assert page_past_the_end.json == {"data": [], "total": 59}


def test_the_queue_script_gets_users_as_objects(app: TestApp) -> None:
    app.put("users", *[{"id": n, "first_name": f"F{n}", "last_name": "L", "vm_pin": "1234"} for n in (1, 2)])
    app.put("queues", {"id": 80001, "name": "Support", "users": [2, 1]})
    url = "/queues?include=users&fields[users]=id,first_name,last_name"
    answer = app.client.get("/v1.1/voipstudio" + url, headers=app.headers)
    assert answer.json == {
        "data": [
            {
                "id": 80001,
                "name": "Support",
                "users": [
                    {"id": 2, "first_name": "F2", "last_name": "L"},
                    {"id": 1, "first_name": "F1", "last_name": "L"},
                ],
            }
        ],
        "total": 1,
    }
    assert b"1234" not in app.get("/queues?include=users").data


def test_what_only_the_platform_knows_of_a_relation_is_asked_of_it(app: TestApp) -> None:
    app.put("users", {"id": 1000001, "first_name": "Ann", "last_name": "Example"})
    app.put("queues", {"id": 80001, "name": "Support", "users": [1000001]})
    app.platform.respond("/queues", read_fixture("response-queues-include-users-200"))
    url = "/queues?include=users&fields[users]=id,first_name,last_name,status"
    assert app.get(url).json["data"][0]["users"][0]["status"] is True
    with app.mirror_db.read() as connection:
        stored = single_record.find_record(connection, get_resource("queues"), 80001)
    assert stored is not None
    assert json.loads(stored.doc)["users"] == [1000001]
    app.platform.fail()
    assert app.get(url).json["data"][0]["users"] == [
        {"id": 1000001, "first_name": "Ann", "last_name": "Example", "status": None}
    ]


def test_a_number_is_found_by_its_digits(app: TestApp) -> None:
    app.put("ddis", {"id": 5, "e164": "442079460001", "name": "Main"})
    assert app.get("/ddis/442079460001").json["data"]["id"] == 5
    assert app.get("/ddis/+442079460001").json["data"]["id"] == 5


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/cdrs?filter=%7B", 400),
        (
            "/cdrs?filter=%5B%7B%22property%22%3A%22x%22%2C%22operator%22%3A%22eq%22%2C%22value%22%3A1%7D%5D",
            400,
        ),
        ("/cdrs?page=x", 400),
        ("/cdrs?sort=id%22%3B", 400),
        ("/nothing", 404),
        ("/", 404),
        ("", 404),
        ("/../../etc/passwd", 404),
        ("//cdrs", 404),
    ],
)
def test_every_error_has_the_one_shape(app: TestApp, path: str, status: int) -> None:
    app.put("cdrs", CDR)
    answer = app.get(path)
    assert answer.status_code == status
    assert set(answer.json) == {"message", "errors"}
    assert isinstance(answer.json["message"], str)


def test_a_wrong_method_is_405_and_says_which_are_right(app: TestApp) -> None:
    answer = app.client.post(f"{app.base}/cdrs", headers=app.add_key("w", "write"))
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"
    assert app.client.put(f"{app.base}/cdrs", headers=app.headers).json["errors"] == []


@pytest.mark.parametrize("method", ["PUT", "TRACE", "LINK", "QUERY"])
@pytest.mark.parametrize("path", ["/cdrs", "/cdrs/7", "/nothing"])
def test_a_method_that_nobody_knows_is_405_in_the_one_shape(app: TestApp, method: str, path: str) -> None:
    answer = app.client.open(app.base + path, method=method, headers=app.add_key(method + path, "write"))
    assert (answer.status_code, answer.json["errors"]) == (405, [])
    assert "GET" in answer.headers["Allow"].split(", ")
    assert app.client.open(app.base + path, method=method).status_code == 401
    assert app.platform.requests == []


def test_options_tells_the_methods_without_credentials(app: TestApp) -> None:
    answer = app.client.options(f"{app.base}/calls/7")
    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"


def test_head_has_the_length_and_no_body(app: TestApp) -> None:
    app.put("cdrs", CDR)
    whole, head = app.get("/cdrs"), app.client.head(f"{app.base}/cdrs", headers=app.headers)
    assert head.data == b""
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]
    assert head.status_code == 200


def test_it_answers_at_every_base_path(app: TestApp) -> None:
    app.put("cdrs", CDR)
    assert list_base_paths(app.context) == ("/v1.1/voipstudio", "/v1.2/voipstudio", "/v1.1", "/v1.2")
    for base in list_base_paths(app.context):
        assert app.client.get(f"{base}/cdrs", headers=app.headers).json["total"] == 1


def test_me_of_a_local_key_shows_no_sip_credentials(app: TestApp) -> None:
    answer = app.get("/me")
    assert answer.json["data"]["id"] == 1000001
    assert not [name for name in answer.json["data"] if name.startswith("sip_")]
    assert b"invented-sip-secret" not in answer.data
    with app.mirror_db.read() as connection:
        assert "sip_" not in connection.execute("SELECT _doc FROM me").fetchone()[0]
    app.platform.fail()
    assert app.get("/me").json["data"]["id"] == 1000001


def test_pins_are_masked_for_local_keys_in_lists_items_and_what_is_read_through(app: TestApp) -> None:
    user = {"id": 1, "first_name": "Ann", "vm_pin": "4711", "ext": "1001"}
    app.platform.respond("/users/1", {"data": user, "links": {}})
    app.platform.respond("/users/1/audio", {"data": {"vm_pin": "4711"}})
    app.put("users", user)
    for path in ("/users", "/users/1", "/users/1", "/users/1/audio"):
        answer = app.get(path)
        assert answer.status_code == 200
        assert b"4711" not in answer.data
    assert app.get('/users?filter=[{"property":"vm_pin","operator":"like","value":"47"}]').status_code == 400


def test_unknown_paths_are_passed_through(app: TestApp) -> None:
    app.platform.respond("/faxes/7", {"data": {"id": 7}})
    assert app.get("/faxes/7?a=b").json == {"data": {"id": 7}}
    assert app.platform.requests[-1].query == {"a": ["b"]}


def test_group_by_adds_the_count(app: TestApp) -> None:
    app.put("cdrs", *cdrs(1, 2, src="1"), *cdrs(3, src="2"))
    answer = app.get("/cdrs?group_by=src").json
    assert [(record["id"], record["count"]) for record in answer["data"]] == [(2, 2), (3, 1)]
    assert answer["total"] == 2


def test_browsers_of_configured_origins_may_call(app: TestApp) -> None:
    assert (
        "Access-Control-Allow-Origin"
        not in app.get("/ping", {**app.headers, "Origin": "https://x.example"}).headers
    )


class TestCors:
    @pytest.fixture
    def settings(self, settings: dict[str, str]) -> dict[str, str]:
        settings["facade__cors_origins"] = "https://crm.example.com"
        return settings

    def test_a_preflight_is_answered_without_credentials(self, app: TestApp) -> None:
        answer = app.client.options(
            f"{app.base}/calls/5",
            headers={"Origin": "https://crm.example.com", "Access-Control-Request-Method": "PATCH"},
        )
        assert answer.status_code == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "https://crm.example.com"
        assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
        assert "X-Auth-Token" in answer.headers["Access-Control-Allow-Headers"]
        assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]

    def test_errors_too_may_be_read_by_the_page(self, app: TestApp) -> None:
        answer = app.client.get(f"{app.base}/cdrs", headers={"Origin": "https://crm.example.com"})
        assert answer.status_code == 401
        assert answer.headers["Access-Control-Allow-Origin"] == "https://crm.example.com"

    def test_other_origins_may_not(self, app: TestApp) -> None:
        answer = app.client.options(f"{app.base}/cdrs", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/cdrs/%0A", "/voicemessages/%0A%13", "/%0Acdrs", "/cdrs/7%00", "/cdrs/%E2%80%A8"]
)
def test_a_path_with_characters_that_no_path_has_is_404_in_our_own_shape(app: TestApp, path: str) -> None:
    for method in ("GET", "DELETE"):
        answer = app.client.open(app.base + path, method=method, headers=app.add_key(method, "write"))
        assert answer.status_code == 404
        assert answer.json["errors"] == []
    assert app.platform.requests == []


def test_secrets_are_masked_where_nobody_expects_them_and_nothing_else_is_touched(app: TestApp) -> None:
    schema_drift.register_hooks(app.mirror_db, collection_state.is_complete)
    strange = {"id": 1, "sip_call_id": "kept", "note": 1.50, "phone": [{"sip_password": "canary"}]}
    user = {"id": 2, "users": [{"id": 7, "vm_pin": "canary"}]}
    app.put("cdrs", {"id": 2, "sip_call_id": "kept"}, {**strange, "password": "canary"})
    app.put("queues", user)
    for path in ("/cdrs", "/cdrs/1", "/queues", "/queues/2"):
        answer = app.get(path)
        assert answer.status_code == 200
        assert b"canary" not in answer.data
    (first, second) = app.get("/cdrs").json["data"]
    assert first == {**strange, "phone": [{"sip_password": None}], "password": None}
    assert second == {"id": 2, "sip_call_id": "kept"}
