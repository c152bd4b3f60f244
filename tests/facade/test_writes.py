"""Writes: sent to the platform first, then stored in the mirror, then returned to the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.applications.facade_app import Room, journal, sample, says, stored

SMS = sample("response-sms-list-200")["data"][0]


def test_what_the_platform_returned_is_in_the_mirror_before_the_answer(
    room: Room, writer: dict[str, str]
) -> None:
    room.server.routes[f"{room.base}/sms"] = says({"data": SMS, "links": {}}, 201)
    answer = room.client.post(
        f"{room.base}/sms", json={"to": "447700900101", "message": "Hello"}, headers=writer
    )
    assert answer.status_code == 201
    assert answer.json == {"data": SMS, "links": {}}
    assert stored(room, "sms", SMS["id"]) == SMS
    (entry,) = journal(room)
    assert (entry["who"], entry["method"], entry["path"], entry["status"]) == (
        "key writer",
        "POST",
        "/sms",
        201,
    )
    assert json.loads(entry["body"]) == {"to": "447700900101", "message": "Hello"}


@pytest.mark.parametrize("status", [301, 400, 403, 404, 412, 500, 503])
def test_whatever_status_the_platform_gives_a_write_is_passed_on(
    room: Room, writer: dict[str, str], status: int
) -> None:
    said = {"message": "Unable to make a call with no VoIP clients registered", "errors": []}
    room.server.routes[f"{room.base}/calls/5"] = says(said, status)
    answer = room.client.patch(f"{room.base}/calls/5", json={"dst": "1001"}, headers=writer)
    assert answer.status_code == status
    assert answer.json == said
    assert room.asked("/calls/5") == 1


def test_no_answer_is_502_and_nothing_is_sent_again(room: Room, writer: dict[str, str]) -> None:
    def cut(asked: Any, reply: Any) -> None:
        reply.raw(b"", close=True)

    room.server.routes[f"{room.base}/calls"] = cut
    answer = room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=writer)
    assert answer.status_code == 502
    assert room.asked("/calls") == 1
    assert journal(room)[0]["result"].startswith("no answer")


class TestTimeout:
    @pytest.fixture
    def settings(self, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr("integration.sync.writing.write_through.WRITE_TIMEOUT_SECONDS", 0.2)
        settings["platform"]["timeout"] = 0.2
        return settings

    def test_too_slow_is_504(self, room: Room) -> None:
        room.server.routes[f"{room.base}/calls"] = lambda asked, reply: room.server.stopping.wait(5)
        answer = room.client.post(f"{room.base}/calls", json={"to": "1"}, headers=room.key("w", "write"))
        assert answer.status_code == 504


def test_a_partial_answer_leaves_the_rest_of_the_record(room: Room, writer: dict[str, str]) -> None:
    room.put("queues", {"id": 80001, "name": "Old", "ring_time": 15, "users": [1000001]})
    room.server.routes[f"{room.base}/queues/80001"] = says(
        {"data": {"id": 80001, "name": "New"}, "links": {}}
    )
    assert (
        room.client.patch(f"{room.base}/queues/80001", json={"name": "New"}, headers=writer).status_code
        == 200
    )
    assert stored(room, "queues", 80001) == {"id": 80001, "name": "New", "ring_time": 15, "users": [1000001]}


def test_an_answer_with_include_is_not_stored_but_read_again_plainly(
    room: Room, writer: dict[str, str]
) -> None:
    room.put("queues", {"id": 80001, "name": "Support", "users": [1000001, 1000002]})

    def queue(asked: Any, reply: Any) -> None:
        reply.json(sample("response-queue-patch-200" if asked.method == "PATCH" else "response-queue-200"))

    room.server.routes[f"{room.base}/queues/80001"] = queue
    body = {"users": [{"id": 1000001, "status": False}]}
    answer = room.client.patch(f"{room.base}/queues/80001?include=users", json=body, headers=writer)
    assert answer.status_code == 200
    assert answer.json["data"]["users"][0] == {"id": 1000001, "status": False}
    assert stored(room, "queues", 80001)["users"] == [1000001, 1000002]


def test_a_new_record_with_include_is_read_again_by_its_own_path(room: Room, writer: dict[str, str]) -> None:
    plain = {"id": 70009, "name": "Sales", "users": [1]}
    shaped = {**plain, "users": [{"id": 1, "first_name": "Ann"}]}
    room.server.routes[f"{room.base}/ringgroups"] = says({"data": shaped, "links": {}}, 201)
    room.server.routes[f"{room.base}/ringgroups/70009"] = says({"data": plain, "links": {}})
    answer = room.client.post(f"{room.base}/ringgroups?include=users", json={"name": "Sales"}, headers=writer)
    assert answer.json["data"] == shaped
    assert stored(room, "ringgroups", 70009) == plain


def test_what_lies_below_a_record_is_no_record_of_its_collection(room: Room, writer: dict[str, str]) -> None:
    room.server.routes[f"{room.base}/cdrs/1/remarks"] = says(
        {"data": {"id": 5, "text": "x"}, "links": {}}, 201
    )
    assert (
        room.client.post(f"{room.base}/cdrs/1/remarks", json={"text": "x"}, headers=writer).status_code == 201
    )
    assert stored(room, "cdrs", 5) is None


def test_what_was_done_is_answered_even_after_a_mistake_of_ours(
    room: Room, writer: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    trigger = (
        "CREATE TRIGGER failure BEFORE INSERT ON calls"
        " BEGIN SELECT RAISE(ABORT, 'simulated storage failure'); END"
    )
    room.mirror_db.write(lambda tx: tx.execute(trigger))
    room.server.routes[f"{room.base}/calls"] = says({"data": {"id": 7}, "links": {}}, 201)
    headers = writer | {"Idempotency-Key": "once"}
    for _ in range(2):
        assert room.client.post(f"{room.base}/calls", json={"to": "1"}, headers=headers).status_code == 201
    assert "simulated storage failure" in caplog.text
    assert room.asked("/calls") == 1


def test_what_a_bulk_patch_changed_is_read_again(room: Room, writer: dict[str, str]) -> None:
    room.put("contacts", {"id": 5, "group_name": "A"})

    def contacts(asked: Any, reply: Any) -> None:
        if asked.method == "GET":
            assert json.loads(asked.query["filter"][0]) == [
                {"property": "id", "operator": "in", "value": [5]}
            ]
            reply.json({"data": [{"id": 5, "group_name": "B"}], "total": 1})
        else:
            reply.json({"data": []})

    room.server.routes[f"{room.base}/contacts"] = contacts
    body = [{"id": 5, "group_name": "B"}]
    assert room.client.patch(f"{room.base}/contacts", json=body, headers=writer).status_code == 200
    assert stored(room, "contacts", 5) == {"id": 5, "group_name": "B"}


class TestSettings:
    @pytest.fixture
    def settings(self, settings: dict[str, Any], request: pytest.FixtureRequest) -> dict[str, Any]:
        settings["facade"].update(request.param)
        return settings

    @pytest.mark.parametrize("settings", [{"writes": False}], indirect=True)
    def test_writes_can_be_switched_off(self, room: Room) -> None:
        answer = room.client.post(f"{room.base}/sms", json={}, headers=room.key("w", "write"))
        assert answer.status_code == 403
        assert "facade.writes" in answer.json["message"]
        assert room.server.asked == []


def test_the_fields_that_the_platform_finds_wrong_are_named_to_the_client(
    room: Room, writer: dict[str, str]
) -> None:
    wrong = {
        "message": "Validation error",
        "errors": [{"code": "SF0010", "field": "to", "message": "This value is not valid."}],
    }
    room.server.routes[f"{room.base}/calls"] = says(wrong, 400)
    answer = room.client.post(f"{room.base}/calls", json={"to": {}}, headers=writer)
    assert (answer.status_code, answer.json) == (400, wrong)


def test_a_new_record_of_two_forms_is_kept_in_both(room: Room, writer: dict[str, str]) -> None:
    room.put("queues", {"id": 80001, "name": "Old", "ring_time": 15})
    made = {"id": 80002, "name": "New", "ring_time": 20, "users": [1000001], "ddis": []}
    room.server.routes[f"{room.base}/queues"] = says({"data": made, "links": {}}, 201)
    body = {"name": "New", "users": [{"id": 1000001, "status": True}]}
    assert room.client.post(f"{room.base}/queues", json=body, headers=writer).json["data"] == made
    assert room.get("/queues").json["data"][1] == {"id": 80002, "name": "New", "ring_time": 20}
    assert room.get("/queues/80002").json["data"] == made
    changed = {**made, "name": "Newer"}
    room.server.routes[f"{room.base}/queues/80002"] = says({"data": changed, "links": {}})
    room.client.patch(f"{room.base}/queues/80002", json={"name": "Newer"}, headers=writer)
    assert room.get("/queues").json["data"][1] == {"id": 80002, "name": "Newer", "ring_time": 20}
    assert room.get("/queues/80002").json["data"] == changed
