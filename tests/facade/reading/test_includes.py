"""Included relations and links of records: in the platform's form, or read through."""

from __future__ import annotations

from typing import Any

from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture

ANN = {"id": 1000001, "first_name": "Ann", "last_name": "Example", "ext": "1001"}
BOB = {"id": 1000002, "first_name": "Bob", "last_name": "Sample", "ext": "1002"}
MAIN_NUMBER = {"id": "5", "e164": "442079460001", "name": "Main"}
SALES_NUMBER = {"id": "6", "e164": "442079460002", "name": "Sales"}
QUEUE_SCRIPT_PATH = "/queues?include=users&fields[users]=id,first_name,last_name,status"
INCLUDED_QUEUES = {
    "data": [
        {
            "id": 80001,
            "name": "Support",
            "users": [
                {"id": 1000001, "first_name": "Ann", "last_name": "Example", "status": True},
                {"id": 1000002, "first_name": "Bob", "last_name": "Sample", "status": False},
            ],
        }
    ],
    "total": 1,
}


def put_group(app: TestApp, **values: Any) -> None:
    app.put("ddis", MAIN_NUMBER, SALES_NUMBER)
    app.put("users", ANN, BOB)
    app.put("ringgroups", {"id": 70001, "name": "Sales", **values})


def test_included_numbers_are_the_records_of_their_e164_numbers(app: TestApp) -> None:
    put_group(app, ddis=["442079460002", "+442079460001"], users=[1000001])
    response = app.get("/ringgroups?include=ddis")
    assert response.json["data"] == [
        {"id": 70001, "name": "Sales", "ddis": [SALES_NUMBER, MAIN_NUMBER], "users": [1000001]}
    ]
    assert response.headers["X-Mirror-Complete"] == "true"
    assert app.platform.count("/ringgroups") == 0


def test_included_numbers_are_the_records_of_their_ids(app: TestApp) -> None:
    put_group(app, ddis=[5, "6"])
    assert app.get("/ringgroups?include=ddis").json["data"][0]["ddis"] == [MAIN_NUMBER, SALES_NUMBER]
    assert app.get("/ringgroups?include=ddis&fields[ddis]=e164").json["data"][0]["ddis"] == [
        {"e164": "442079460001"},
        {"e164": "442079460002"},
    ]


def test_number_that_the_mirror_lacks_is_read_through_and_never_invented(app: TestApp) -> None:
    put_group(app, ddis=["442079460001", "442079460009"])
    new_number = {"id": "9", "e164": "442079460009", "name": "New"}
    included = {"data": [{"id": 70001, "name": "Sales", "ddis": [MAIN_NUMBER, new_number]}], "total": 1}
    app.platform.respond("/ringgroups", included)
    assert app.get("/ringgroups?include=ddis").json == included
    app.platform.fail()
    response = app.get("/ringgroups?include=ddis")
    assert response.json["data"][0]["ddis"] == [MAIN_NUMBER, "442079460009"]
    assert response.headers["X-Mirror-Complete"] == "false"


def test_queue_script_receives_statuses_of_the_item_form_while_the_platform_is_unreachable(
    app: TestApp,
) -> None:
    app.put("users", ANN, BOB)
    app.put("queues", {"id": 80001, "name": "Support"})
    statuses = [{"id": 1000001, "status": True}, {"id": 1000002, "status": False}]
    item = {"id": 80001, "name": "Support", "users": statuses}
    app.platform.respond("/queues/80001", {"data": item, "links": {}})
    assert app.get("/queues/80001", {**app.headers, "Cache-Control": "no-cache"}).json["data"] == item
    app.platform.fail()
    response = app.get(QUEUE_SCRIPT_PATH)
    assert response.json == INCLUDED_QUEUES
    assert response.headers["X-Mirror-Complete"] == "true"
    assert b": " not in response.data


def test_record_includes_the_same_relations_as_its_list(app: TestApp) -> None:
    put_group(app, ddis=["442079460001"], users=[1000001])
    query = "include=ddis,users&fields[users]=id,first_name"
    expected = {
        "id": 70001,
        "name": "Sales",
        "ddis": [MAIN_NUMBER],
        "users": [{"id": 1000001, "first_name": "Ann"}],
    }
    assert app.get(f"/ringgroups?{query}").json["data"] == [expected]
    response = app.get(f"/ringgroups/70001?{query}")
    assert response.json["data"] == expected
    assert response.headers["X-Mirror-Complete"] == "true"
    assert app.platform.count("/ringgroups/70001") == 0
    app.platform.respond("/ringgroups/70001", {"data": {**expected, "users": [{"id": 1}]}, "links": {}})
    assert app.get("/ringgroups/70001?include=users").json["data"]["users"] == [{"id": 1}]
    app.platform.fail()
    partial = app.get("/ringgroups/70001?include=users")
    assert partial.json["data"]["users"] == [ANN]
    assert partial.headers["X-Mirror-Complete"] == "false"


def test_links_are_the_record_itself_and_its_mirrored_relations(app: TestApp) -> None:
    cdr = read_fixture("response-cdrs-list-200")["data"][0]
    app.put("cdrs", cdr)
    app.put("users", ANN)
    for base in ("/v1.1/voipstudio", "/v1.2/voipstudio", "/v1.1"):
        response = app.client.get(f"{base}/cdrs/700000001", headers=app.headers)
        # The call has ended, so /calls/4278000101 would be 404.
        assert response.json == {
            "data": cdr,
            "links": {"self": f"{base}/cdrs/700000001", "user": f"{base}/users/1000001"},
        }
    limited = app.add_key("cdrs only", collections=["cdrs"])
    assert app.get("/cdrs/700000001", limited).json["links"] == {"self": f"{app.base}/cdrs/700000001"}


def test_links_of_lists_lead_to_their_members(app: TestApp) -> None:
    put_group(app, ddis=["+442079460002"], users=[1000002])
    links = app.get("/ringgroups/70001").json["links"]
    assert links.keys() == {"self", "users", "ddis"}
    assert links["self"] == f"{app.base}/ringgroups/70001"
    assert app.client.get(links["users"], headers=app.headers).json["data"] == [BOB]
    assert app.client.get(links["ddis"], headers=app.headers).json["data"] == [SALES_NUMBER]


def test_links_that_the_platform_sent_are_kept_until_the_record_changes(app: TestApp) -> None:
    links = {"self": "https://platform.example/users/1000001", "calls": "/users/1000001/calls"}
    app.put("users", ANN)
    app.platform.respond("/users/1000001", {"data": {**ANN, "language": "en"}, "links": links})
    limited, own_links = (
        app.add_key("users only", collections=["users"]),
        {"self": f"{app.base}/users/1000001"},
    )
    for headers, expected in ((app.headers, links), (limited, own_links)):
        response = app.get("/users/1000001", {**headers, "Cache-Control": "no-cache"})
        assert response.json["links"] == expected
    app.platform.fail()
    assert app.get("/users/1000001").json == {"data": {**ANN, "language": "en"}, "links": links}
    assert app.get("/users/1000001", limited).json["links"] == own_links
    app.put("users", {**ANN, "first_name": "Anne"})
    assert app.get("/users/1000001").json["links"] == own_links
