"""Writes: sent to the platform first, then stored in the mirror, then returned to the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.people import CALLER
from tests.support.records import find_record, list_writes
from tests.support.scripted_server import Server

SMS = read_fixture("response-sms-list-200")["data"][0]


def test_what_the_platform_returned_is_in_the_mirror_before_the_answer(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/sms", {"data": SMS, "links": {}}, 201)
    answer = app.client.post(
        f"{app.base}/sms", json={"to": "447700900101", "message": "Hello"}, headers=writer
    )
    assert answer.status_code == 201
    assert answer.json == {"data": SMS, "links": {}}
    assert find_record(app.mirror_db, "sms", SMS["id"]) == SMS
    (entry,) = list_writes(app.app_db)
    assert (entry["who"], entry["method"], entry["path"], entry["status"]) == (
        "key writer",
        "POST",
        "/sms",
        201,
    )
    assert json.loads(entry["body"]) == {"to": "447700900101", "message": "Hello"}


@pytest.mark.parametrize("status", [301, 400, 403, 404, 412, 500, 503])
def test_whatever_status_the_platform_gives_a_write_is_passed_on(
    app: TestApp, writer: dict[str, str], status: int
) -> None:
    said = {"message": "Unable to make a call with no VoIP clients registered", "errors": []}
    app.platform.respond("/calls/5", said, status)
    answer = app.client.patch(f"{app.base}/calls/5", json={"dst": "1001"}, headers=writer)
    assert answer.status_code == status
    assert answer.json == said
    assert app.platform.count("/calls/5") == 1


class TestConnection:
    """A platform whose connections fail."""

    @pytest.fixture
    def platform(self, wired_platform: Server) -> Server:
        return wired_platform

    @pytest.fixture
    def settings(self, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr("integration.sync.writing.write_through.WRITE_TIMEOUT_SECONDS", 0.2)
        settings["platform__timeout"] = "0.2"
        return settings

    def test_no_answer_is_502_and_nothing_is_sent_again(self, app: TestApp, writer: dict[str, str]) -> None:
        def cut(request: Any, reply: Any) -> None:
            reply.raw(b"", close=True)

        app.platform.routes["/calls"] = cut
        answer = app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=writer)
        assert answer.status_code == 502
        assert app.platform.count("/calls") == 1
        assert list_writes(app.app_db)[0]["result"].startswith("no answer")

    def test_too_slow_is_504(self, app: TestApp) -> None:
        app.platform.routes["/calls"] = lambda request, reply: app.platform.stopping.wait(5)
        answer = app.client.post(f"{app.base}/calls", json={"to": "1"}, headers=app.add_key("w", "write"))
        assert answer.status_code == 504


def test_a_partial_answer_leaves_the_rest_of_the_record(app: TestApp, writer: dict[str, str]) -> None:
    app.put("queues", {"id": 80001, "name": "Old", "ring_time": 15, "users": [1000001]})
    app.platform.respond("/queues/80001", {"data": {"id": 80001, "name": "New"}, "links": {}})
    assert (
        app.client.patch(f"{app.base}/queues/80001", json={"name": "New"}, headers=writer).status_code == 200
    )
    assert find_record(app.mirror_db, "queues", 80001) == {
        "id": 80001,
        "name": "New",
        "ring_time": 15,
        "users": [1000001],
    }


def test_a_write_completes_a_live_call_that_only_webhooks_reported(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.event("call.ringing", 4_300_000_001, "2026-09-02 08:45:55")
    record = {"id": 4_300_000_001, "state": "CONNECTED", "monitor_state": "A"}
    app.platform.respond("/calls/4300000001", {"data": record, "links": {}})
    answer = app.client.patch(f"{app.base}/calls/4300000001", json={"monitor_state": "start"}, headers=writer)
    assert answer.status_code == 200
    stored = find_record(app.mirror_db, "calls", 4_300_000_001)
    assert stored is not None
    assert stored["monitor_state"] == "A"
    assert stored["src"] == CALLER, "fields of the webhook that the response lacks stay"


def test_an_answer_with_include_is_not_stored_but_read_again_plainly(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.put("queues", {"id": 80001, "name": "Support", "users": [1000001, 1000002]})

    def queue(request: Any, reply: Any) -> None:
        reply.json(
            read_fixture("response-queue-patch-200" if request.method == "PATCH" else "response-queue-200")
        )

    app.platform.routes["/queues/80001"] = queue
    body = {"users": [{"id": 1000001, "status": False}]}
    answer = app.client.patch(f"{app.base}/queues/80001?include=users", json=body, headers=writer)
    assert answer.status_code == 200
    assert answer.json["data"]["users"][0] == {"id": 1000001, "status": False}
    assert find_record(app.mirror_db, "queues", 80001)["users"] == [1000001, 1000002]


def test_a_new_record_with_include_is_read_again_by_its_own_path(
    app: TestApp, writer: dict[str, str]
) -> None:
    plain = {"id": 70009, "name": "Sales", "users": [1]}
    shaped = {**plain, "users": [{"id": 1, "first_name": "Ann"}]}
    app.platform.respond("/ringgroups", {"data": shaped, "links": {}}, 201)
    app.platform.respond("/ringgroups/70009", {"data": plain, "links": {}})
    answer = app.client.post(f"{app.base}/ringgroups?include=users", json={"name": "Sales"}, headers=writer)
    assert answer.json["data"] == shaped
    assert find_record(app.mirror_db, "ringgroups", 70009) == plain


def test_what_lies_below_a_record_is_no_record_of_its_collection(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/cdrs/1/remarks", {"data": {"id": 5, "text": "x"}, "links": {}}, 201)
    assert (
        app.client.post(f"{app.base}/cdrs/1/remarks", json={"text": "x"}, headers=writer).status_code == 201
    )
    assert find_record(app.mirror_db, "cdrs", 5) is None


def test_what_was_done_is_answered_even_after_a_mistake_of_ours(
    app: TestApp, writer: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    trigger = (
        "CREATE TRIGGER failure BEFORE INSERT ON calls"
        " BEGIN SELECT RAISE(ABORT, 'simulated storage failure'); END"
    )
    app.mirror_db.write(lambda tx: tx.execute(trigger))
    app.platform.respond("/calls", {"data": {"id": 7}, "links": {}}, 201)
    headers = writer | {"Idempotency-Key": "once"}
    for _ in range(2):
        assert app.client.post(f"{app.base}/calls", json={"to": "1"}, headers=headers).status_code == 201
    assert "simulated storage failure" in caplog.text
    assert app.platform.count("/calls") == 1


def test_what_a_bulk_patch_changed_is_read_again(app: TestApp, writer: dict[str, str]) -> None:
    app.put("contacts", {"id": 5, "group_name": "A"})

    def contacts(request: Any, reply: Any) -> None:
        if request.method == "GET":
            assert json.loads(request.query["filter"][0]) == [
                {"property": "id", "operator": "in", "value": [5]}
            ]
            reply.json({"data": [{"id": 5, "group_name": "B"}], "total": 1})
        else:
            reply.json({"data": []})

    app.platform.routes["/contacts"] = contacts
    body = [{"id": 5, "group_name": "B"}]
    assert app.client.patch(f"{app.base}/contacts", json=body, headers=writer).status_code == 200
    assert find_record(app.mirror_db, "contacts", 5) == {"id": 5, "group_name": "B"}


class TestSettings:
    @pytest.fixture
    def settings(self, settings: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
        settings.update(request.param)
        return settings

    @pytest.mark.parametrize("settings", [{"facade__writes": "false"}], indirect=True)
    def test_writes_can_be_switched_off(self, app: TestApp) -> None:
        answer = app.client.post(f"{app.base}/sms", json={}, headers=app.add_key("w", "write"))
        assert answer.status_code == 403
        assert "facade.writes" in answer.json["message"]
        assert app.platform.requests == []


def test_the_fields_that_the_platform_finds_wrong_are_named_to_the_client(
    app: TestApp, writer: dict[str, str]
) -> None:
    wrong = {
        "message": "Validation error",
        "errors": [{"code": "SF0010", "field": "to", "message": "This value is not valid."}],
    }
    app.platform.respond("/calls", wrong, 400)
    answer = app.client.post(f"{app.base}/calls", json={"to": {}}, headers=writer)
    assert (answer.status_code, answer.json) == (400, wrong)


def test_a_new_record_of_two_forms_is_kept_in_both(app: TestApp, writer: dict[str, str]) -> None:
    app.put("queues", {"id": 80001, "name": "Old", "ring_time": 15})
    made = {"id": 80002, "name": "New", "ring_time": 20, "users": [1000001], "ddis": []}
    app.platform.respond("/queues", {"data": made, "links": {}}, 201)
    body = {"name": "New", "users": [{"id": 1000001, "status": True}]}
    assert app.client.post(f"{app.base}/queues", json=body, headers=writer).json["data"] == made
    assert app.get("/queues").json["data"][1] == {"id": 80002, "name": "New", "ring_time": 20}
    assert app.get("/queues/80002").json["data"] == made
    changed = {**made, "name": "Newer"}
    app.platform.respond("/queues/80002", {"data": changed, "links": {}})
    app.client.patch(f"{app.base}/queues/80002", json={"name": "Newer"}, headers=writer)
    assert app.get("/queues").json["data"][1] == {"id": 80002, "name": "Newer", "ring_time": 20}
    assert app.get("/queues/80002").json["data"] == changed
