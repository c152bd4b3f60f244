"""Filters, sorts and groups by fields that only a record's own path returns."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.applications.shared_app import SharedApp

Record = dict[str, Any]


def query(app: Any, collection: str, headers: Record | None = None, **args: Any) -> Any:
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in args.items()}
    return app.get(f"/{collection}?{urlencode(values)}", headers)


def condition(name: str, operator: str, value: Any) -> list[Record]:
    return [{"property": name, "operator": operator, "value": value}]


def list_ids(app: Any, collection: str, **args: Any) -> list[int]:
    response = query(app, collection, **args)
    assert response.status_code == 200, response.json
    assert response.json["total"] == len(response.json["data"])
    return [record["id"] for record in response.json["data"]]


USERS = [
    {"id": 7, "ext": "107", "mood": None},
    {"id": 8, "ext": "108", "mood": None},
    {"id": 9, "ext": "109"},
]
ITEMS = [
    {
        **USERS[0],
        "final_dst_type": "V",
        "vm_pin": "4711",
        "desk": "A",
        "sip": {"host": "x", "password": "k1"},
    },
    {
        **USERS[1],
        "final_dst_type": None,
        "vm_pin": "4712",
        "desk": "B",
        "sip": {"host": "y", "password": "k2"},
    },
]


@pytest.fixture
def app(shared_app: SharedApp) -> SharedApp:
    """Three users; the own path of the third was not read."""
    shared_app.put("users", *USERS)
    for item in ITEMS:
        shared_app.platform.respond(f"/users/{item['id']}", {"data": item, "links": {}})
        shared_app.get(f"/users/{item['id']}")
    shared_app.platform.fail()
    return shared_app


def test_a_field_of_a_record_whose_own_path_was_not_read_is_null(app: SharedApp) -> None:
    assert list_ids(app, "users", filter=condition("final_dst_type", "eq", "V")) == [7]
    assert list_ids(app, "users", filter=condition("final_dst_type", "ne", "X")) == [7]
    assert list_ids(app, "users", filter=condition("final_dst_type", "eq", None)) == [8, 9]
    assert list_ids(app, "users", filter=condition("final_dst_type", "in", ["V", "U"])) == [7]
    assert list_ids(app, "users", filter=condition("final_dst_type", "like", "v")) == [7]
    assert list_ids(app, "users", sort="final_dst_type", dir="DESC") == [7, 8, 9]
    for args, is_complete in (
        ({"filter": condition("final_dst_type", "eq", "V")}, "false"),
        ({"group_by": "final_dst_type"}, "false"),
        ({"filter": condition("ext", "eq", "107")}, "true"),
    ):
        assert query(app, "users", **args).headers["X-Mirror-Complete"] == is_complete
    app.clock.advance(hours=2)
    app.put("users", *USERS)
    for name, hours in (("final_dst_type", 2), ("ext", 0)):
        headers = query(app, "users", filter=condition(name, "ne", "")).headers
        assert int(headers["X-Mirror-Age"]) // 3600 == hours


def test_undocumented_fields_of_own_paths_are_fields_of_the_collection(app: SharedApp) -> None:
    assert list_ids(app, "users", filter=condition("desk", "eq", "B")) == [8]
    assert list_ids(app, "users", sort="desk") == [9, 7, 8]
    assert query(app, "users", group_by="desk").json["total"] == 3
    assert query(app, "users", filter=condition("desks", "eq", "B")).status_code == 400


def test_texts_of_own_paths_are_exported_exactly(app: SharedApp) -> None:
    odd = {**USERS[2], "desk": "a\x00b", "note": "=1+1", "sip": {"password": "k3"}}
    app.platform.respond("/users/9", {"data": odd, "links": {}})
    app.get("/users/9", {**app.headers, "Cache-Control": "no-cache"})
    columns = "id,desk,note,sip,vm_pin"
    response = app.client.get(f"/exports/users.csv?columns={columns}", headers=app.headers)
    rows = list(csv.reader(io.StringIO(response.text, newline="")))
    assert rows[1][1] == "A"
    assert rows[1][4] == "***"
    assert rows[3] == ["9", "a\ufffdb", "'=1+1", '{"password":null}', ""]
    found = app.client.get(
        f"/exports/users.csv?filter={json.dumps(condition('desk', 'eq', 'B'))}", headers=app.headers
    )
    assert found.headers["X-Export-Rows"] == "1"


def test_secrets_of_own_paths_stay_hidden_from_local_keys(app: SharedApp) -> None:
    for name in ("vm_pin", "legacy_api_key", "sip_password"):
        for args in ({"filter": condition(name, "like", "47")}, {"sort": name}, {"group_by": name}):
            assert query(app, "users", **args).status_code == 400, name
    assert list_ids(app, "users", filter=condition("sip", "like", '"host":"x"')) == [7]
    assert list_ids(app, "users", filter=condition("sip", "like", "k1")) == []


def test_a_key_with_a_user_scope_sees_fields_of_its_own_record_only(app: SharedApp) -> None:
    headers = app.add_key("own", user=7)
    for operator, value, expected in (("eq", "V", [7]), ("eq", None, []), ("ne", "A", [7])):
        response = query(app, "users", headers, filter=condition("final_dst_type", operator, value))
        assert [record["id"] for record in response.json["data"]] == expected
    assert query(app, "users", headers, filter=condition("desk", "eq", "B")).json["total"] == 0


def test_secrets_within_documented_lists_are_not_found_by_local_keys(shared_app: SharedApp) -> None:
    shared_app.put(
        "users", {"id": 7, "roles": [{"id": 1, "password": "k1"}]}, {"id": 8, "roles": [{"id": 2}]}
    )
    assert list_ids(shared_app, "users", filter=condition("roles", "like", "k1")) == []
    assert list_ids(shared_app, "users", filter=condition("roles", "like", '"id":1')) == [7]
    assert list_ids(shared_app, "users", filter=condition("roles", "eq", '[{"id":2}]')) == [8]
