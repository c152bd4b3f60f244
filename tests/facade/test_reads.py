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
from tests.support.applications.facade_app import Room, sample, says

CDR = sample("response-cdrs-list-200")["data"][0]


def cdrs(*ids: int, **values: Any) -> list[dict[str, Any]]:
    return [{**CDR, "id": number, **values} for number in ids]


def test_a_collection_comes_from_the_mirror_exactly_as_received(room: Room) -> None:
    room.put("cdrs", CDR)
    answer = room.get("/cdrs")
    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    assert answer.data == b'{"data":[' + json.dumps(CDR, separators=(",", ":")).encode() + b'],"total":1}'
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    assert answer.headers["X-Mirror-Complete"] == "true"
    assert 0 <= int(answer.headers["X-Mirror-Age"]) < 60
    assert "X-Next-Page" not in answer.headers
    assert room.asked("/cdrs") == 0


def test_an_item_comes_from_the_mirror_with_links(room: Room) -> None:
    room.put("cdrs", CDR)
    answer = room.get(f"/cdrs/{CDR['id']}")
    assert answer.json == {"data": CDR, "links": {}}
    assert answer.headers["X-Mirror-Complete"] == "true"


def test_an_unknown_record_of_a_complete_collection_is_404_even_when_the_platform_is_away(room: Room) -> None:
    room.put("cdrs", CDR)
    room.away()
    answer = room.get("/cdrs/5")
    assert answer.status_code == 404
    assert answer.json["errors"] == []
    assert room.get("/cdrs/99999999999999999999").status_code == 404


def test_an_internal_error_states_what_failed_and_what_to_do_and_no_detail(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.put("cdrs", CDR)
    room.mirror_db.write(lambda tx: tx.execute("DROP TABLE _walks"))
    answer = room.get("/cdrs")
    assert answer.status_code == 500
    assert answer.json["errors"] == []
    assert answer.json["message"].startswith("Switchroom failed on this request")
    assert "the log of the server has the cause" in answer.json["message"]
    assert "Before you retry a write" in answer.json["message"]
    assert "_walks" not in answer.json["message"]
    assert "no such table: _walks" in caplog.text


def test_a_collection_never_walked_is_read_through_and_kept(room: Room) -> None:
    room.server.routes[f"{room.base}/cdrs"] = says(sample("response-cdrs-list-200"))
    answer = room.get("/cdrs?limit=1")
    assert answer.json == sample("response-cdrs-list-200")
    assert "X-Mirror-Age" not in answer.headers
    assert room.server.asked[-1].query == {"limit": ["1"]}
    with room.mirror_db.read() as connection:
        stored = single_record.find_record(connection, get_resource("cdrs"), CDR["id"])
    assert stored is not None
    assert json.loads(stored.doc) == CDR


def test_empty_because_never_read_is_not_mistaken_for_empty(room: Room) -> None:
    room.away()
    assert room.get("/cdrs").status_code == 502
    room.put("cdrs", CDR, complete=False)
    answer = room.get("/cdrs")
    assert answer.json["total"] == 1
    assert answer.headers["X-Mirror-Complete"] == "false"


def test_a_live_call_nobody_has_told_of_yet_is_asked_for(room: Room) -> None:
    room.put("calls")
    call = {"id": 4278000101, "state": "RINGING"}
    room.server.routes[f"{room.base}/calls/4278000101"] = says({"data": call, "links": {}})
    assert room.get("/calls/4278000101").json["data"] == call
    assert room.get("/calls/4278000102").status_code == 404
    room.away()
    assert room.get("/calls/4278000102").status_code == 404


def test_a_record_not_mirrored_yet_is_read_through_or_502(room: Room) -> None:
    room.server.routes[f"{room.base}/cdrs/700000001"] = says({"data": CDR, "links": {}})
    assert room.get("/cdrs/700000001").json["data"] == CDR
    room.away()
    assert room.get("/cdrs/700000001").json["data"] == CDR
    assert room.get("/cdrs/700000002").status_code == 502


def test_no_cache_reads_through(room: Room) -> None:
    room.put("cdrs", CDR)
    room.server.routes[f"{room.base}/cdrs"] = says({"data": [], "total": 0})
    assert room.get("/cdrs", {**room.headers, "Cache-Control": "no-cache"}).json["total"] == 0


def test_records_gone_from_the_platform_are_404(room: Room) -> None:
    room.put("cdrs", CDR)
    room.mirror_db.write(
        lambda tx: single_record.mark_missing(tx, get_resource("cdrs"), [CDR["id"]], "2026-09-03 00:00:00")
    )
    assert room.get(f"/cdrs/{CDR['id']}").status_code == 404
    assert room.get("/cdrs").json == {"data": [], "total": 0}


def test_the_singer_tap_gets_all_it_asks_for_when_the_limit_is_raised(settings: dict, room: Room) -> None:
    room.put("cdrs", *cdrs(*range(1, 12)))
    answer = room.get("/cdrs?page=1&limit=10000", {**room.headers, "User-Agent": "python-requests/2.32"})
    assert answer.status_code == 200
    assert len(answer.json["data"]) == 11
    assert "X-Next-Page" not in answer.headers


def test_the_data_studio_connector_gets_its_strict_bounds(room: Room) -> None:
    room.put(
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
    user, secret = basic(room)
    answer = room.client.get(
        f"/v1.2/voipstudio/cdrs?page=1&limit=5000&filter={encoded}",
        auth=(user, secret),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200
    assert [record["id"] for record in answer.json["data"]] == [2, 3]
    assert answer.json["total"] == 2
    assert type(answer.json["total"]) is int


def basic(room: Room) -> tuple[str, str]:
    from integration.access import keys

    user, secret = keys.add(room.app_db, "basic", "read")
    return str(user), secret


def test_the_command_line_client_lists(room: Room) -> None:
    room.put(
        "monitors", *[{**sample("response-monitors-list-200")["data"][0], "id": n} for n in range(1, 60)]
    )
    answer = room.get("/monitors?limit=25&page=1&filter=%5B%5D&sort=id&dir=DESC")
    assert [record["id"] for record in answer.json["data"]] == list(range(59, 34, -1))
    assert answer.json["total"] == 59
    page_past_the_end = room.get("/monitors?limit=100&page=2&filter=%5B%5D&sort=id&dir=DESC")
    assert page_past_the_end.json == {"data": [], "total": 59}


def test_the_queue_script_gets_users_as_objects(room: Room) -> None:
    room.put("users", *[{"id": n, "first_name": f"F{n}", "last_name": "L", "vm_pin": "1234"} for n in (1, 2)])
    room.put("queues", {"id": 80001, "name": "Support", "users": [2, 1]})
    url = "/queues?include=users&fields[users]=id,first_name,last_name"
    answer = room.client.get("/v1.1/voipstudio" + url, headers=room.headers)
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
    assert b"1234" not in room.get("/queues?include=users").data


def test_what_only_the_platform_knows_of_a_relation_is_asked_of_it(room: Room) -> None:
    room.put("users", {"id": 1000001, "first_name": "Ann", "last_name": "Example"})
    room.put("queues", {"id": 80001, "name": "Support", "users": [1000001]})
    room.server.routes[f"{room.base}/queues"] = says(sample("response-queues-include-users-200"))
    url = "/queues?include=users&fields[users]=id,first_name,last_name,status"
    assert room.get(url).json["data"][0]["users"][0]["status"] is True
    with room.mirror_db.read() as connection:
        stored = single_record.find_record(connection, get_resource("queues"), 80001)
    assert stored is not None
    assert json.loads(stored.doc)["users"] == [1000001]
    room.away()
    assert room.get(url).json["data"][0]["users"] == [
        {"id": 1000001, "first_name": "Ann", "last_name": "Example", "status": None}
    ]


def test_a_number_is_found_by_its_digits(room: Room) -> None:
    room.put("ddis", {"id": 5, "e164": "442079460001", "name": "Main"})
    assert room.get("/ddis/442079460001").json["data"]["id"] == 5
    assert room.get("/ddis/+442079460001").json["data"]["id"] == 5


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
def test_every_error_has_the_one_shape(room: Room, path: str, status: int) -> None:
    room.put("cdrs", CDR)
    answer = room.get(path)
    assert answer.status_code == status
    assert set(answer.json) == {"message", "errors"}
    assert isinstance(answer.json["message"], str)
    assert answer.json["errors"] == []


def test_a_wrong_method_is_405_and_says_which_are_right(room: Room) -> None:
    answer = room.client.post(f"{room.base}/cdrs", headers=room.key("w", "write"))
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"
    assert room.client.put(f"{room.base}/cdrs", headers=room.headers).json["errors"] == []


@pytest.mark.parametrize("method", ["PUT", "TRACE", "LINK", "QUERY"])
@pytest.mark.parametrize("path", ["/cdrs", "/cdrs/7", "/nothing"])
def test_a_method_that_nobody_knows_is_405_in_the_one_shape(room: Room, method: str, path: str) -> None:
    answer = room.client.open(room.base + path, method=method, headers=room.key(method + path, "write"))
    assert (answer.status_code, answer.json["errors"]) == (405, [])
    assert "GET" in answer.headers["Allow"].split(", ")
    assert room.client.open(room.base + path, method=method).status_code == 401
    assert room.server.asked == []


def test_options_tells_the_methods_without_credentials(room: Room) -> None:
    answer = room.client.options(f"{room.base}/calls/7")
    assert (answer.status_code, answer.data) == (204, b"")
    assert answer.headers["Allow"] == "GET, PATCH, DELETE, HEAD, OPTIONS"


def test_head_has_the_length_and_no_body(room: Room) -> None:
    room.put("cdrs", CDR)
    whole, head = room.get("/cdrs"), room.client.head(f"{room.base}/cdrs", headers=room.headers)
    assert head.data == b""
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]
    assert head.status_code == 200


def test_it_answers_at_every_base_path(room: Room) -> None:
    room.put("cdrs", CDR)
    assert list_base_paths(room.context) == ("/v1.1/voipstudio", "/v1.2/voipstudio", "/v1.1", "/v1.2")
    for base in list_base_paths(room.context):
        assert room.client.get(f"{base}/cdrs", headers=room.headers).json["total"] == 1


def test_me_of_a_local_key_shows_no_sip_credentials(room: Room) -> None:
    answer = room.get("/me")
    assert answer.json["data"]["id"] == 1000001
    assert not [name for name in answer.json["data"] if name.startswith("sip_")]
    assert b"invented-sip-secret" not in answer.data
    with room.mirror_db.read() as connection:
        assert "sip_" not in connection.execute("SELECT _doc FROM me").fetchone()[0]
    room.away()
    assert room.get("/me").json["data"]["id"] == 1000001


def test_pins_are_masked_for_local_keys_in_lists_items_and_what_is_read_through(room: Room) -> None:
    user = {"id": 1, "first_name": "Ann", "vm_pin": "4711", "ext": "1001"}
    room.server.routes[f"{room.base}/users/1"] = says({"data": user, "links": {}})
    room.server.routes[f"{room.base}/users/1/audio"] = says({"data": {"vm_pin": "4711"}})
    room.put("users", user)
    for path in ("/users", "/users/1", "/users/1", "/users/1/audio"):
        answer = room.get(path)
        assert answer.status_code == 200
        assert b"4711" not in answer.data
    assert room.get('/users?filter=[{"property":"vm_pin","operator":"like","value":"47"}]').status_code == 400


def test_unknown_paths_are_passed_through(room: Room) -> None:
    room.server.routes[f"{room.base}/faxes/7"] = says({"data": {"id": 7}})
    assert room.get("/faxes/7?a=b").json == {"data": {"id": 7}}
    assert room.server.asked[-1].query == {"a": ["b"]}


def test_group_by_adds_the_count(room: Room) -> None:
    room.put("cdrs", *cdrs(1, 2, src="1"), *cdrs(3, src="2"))
    answer = room.get("/cdrs?group_by=src").json
    assert [(record["id"], record["count"]) for record in answer["data"]] == [(2, 2), (3, 1)]
    assert answer["total"] == 2


def test_browsers_of_configured_origins_may_call(room: Room) -> None:
    assert (
        "Access-Control-Allow-Origin"
        not in room.get("/ping", {**room.headers, "Origin": "https://x.example"}).headers
    )


class TestCors:
    @pytest.fixture
    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        settings["facade"]["cors_origins"] = ["https://crm.example.com"]
        return settings

    def test_a_preflight_is_answered_without_credentials(self, room: Room) -> None:
        answer = room.client.options(
            f"{room.base}/calls/5",
            headers={"Origin": "https://crm.example.com", "Access-Control-Request-Method": "PATCH"},
        )
        assert answer.status_code == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "https://crm.example.com"
        assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
        assert "X-Auth-Token" in answer.headers["Access-Control-Allow-Headers"]
        assert "Content-Type" in answer.headers["Access-Control-Allow-Headers"]

    def test_errors_too_may_be_read_by_the_page(self, room: Room) -> None:
        answer = room.client.get(f"{room.base}/cdrs", headers={"Origin": "https://crm.example.com"})
        assert answer.status_code == 401
        assert answer.headers["Access-Control-Allow-Origin"] == "https://crm.example.com"

    def test_other_origins_may_not(self, room: Room) -> None:
        answer = room.client.options(f"{room.base}/cdrs", headers={"Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/cdrs/%0A", "/voicemessages/%0A%13", "/%0Acdrs", "/cdrs/7%00", "/cdrs/%E2%80%A8"]
)
def test_a_path_with_characters_that_no_path_has_is_404_in_our_own_shape(room: Room, path: str) -> None:
    for method in ("GET", "DELETE"):
        answer = room.client.open(room.base + path, method=method, headers=room.key(method, "write"))
        assert answer.status_code == 404
        assert answer.json["errors"] == []
    assert room.server.asked == []


def test_secrets_are_masked_where_nobody_expects_them_and_nothing_else_is_touched(room: Room) -> None:
    schema_drift.register_hooks(room.mirror_db, collection_state.is_complete)
    strange = {"id": 1, "sip_call_id": "kept", "note": 1.50, "phone": [{"sip_password": "canary"}]}
    user = {"id": 2, "users": [{"id": 7, "vm_pin": "canary"}]}
    room.put("cdrs", {"id": 2, "sip_call_id": "kept"}, {**strange, "password": "canary"})
    room.put("queues", user)
    for path in ("/cdrs", "/cdrs/1", "/queues", "/queues/2"):
        answer = room.get(path)
        assert answer.status_code == 200
        assert b"canary" not in answer.data
    (first, second) = room.get("/cdrs").json["data"]
    assert first == {**strange, "phone": [{"sip_password": None}], "password": None}
    assert second == {"id": 2, "sip_call_id": "kept"}
