"""Writes: sent to the platform, stored in the mirror, returned to clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import FakeExchange, read_fixture
from tests.support.records import find_record, list_writes
from tests.support.scripted_server import Server

SMS = read_fixture("response-sms-list-200")["data"][0]


def test_written_record_is_mirrored_before_the_response(app: TestApp, writer: dict[str, str]) -> None:
    app.platform.respond("/sms", {"data": SMS, "links": {}}, 201)
    response = app.client.post(
        f"{app.base}/sms", json={"to": "447700900101", "message": "Hello"}, headers=writer
    )
    assert response.status_code == 201
    assert response.json == {"data": SMS, "links": {}}
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
def test_status_of_the_platform_is_passed_through(app: TestApp, writer: dict[str, str], status: int) -> None:
    wrong = {"code": "SF0010", "field": "to", "message": "This value is not valid."}
    error = {"message": "Unable to make a call with no VoIP clients registered", "errors": [wrong]}
    app.platform.respond("/calls/5", error, status)
    response = app.client.patch(f"{app.base}/calls/5", json={"dst": "1001"}, headers=writer)
    assert response.status_code == status
    assert response.json == error
    assert app.platform.count("/calls/5") == 1


class TestConnection:
    """A platform whose connections fail."""

    @pytest.fixture
    def app(self, own_app: TestApp) -> TestApp:
        return own_app

    @pytest.fixture
    def platform(self, wired_platform: Server) -> Server:
        return wired_platform

    @pytest.fixture
    def settings(self, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr("integration.sync.writing.write_through.WRITE_TIMEOUT_SECONDS", 0.2)
        settings["platform__timeout"] = "0.2"
        return settings

    @pytest.mark.parametrize("is_log_broken", [False, True])
    def test_write_without_a_response_is_502_and_not_repeated(
        self, app: TestApp, writer: dict[str, str], is_log_broken: bool
    ) -> None:
        def disconnect(request: Any, reply: Any) -> None:
            reply.raw(b"", close=True)

        app.platform.routes["/calls"] = disconnect
        if is_log_broken:
            fail = "CREATE TRIGGER fail BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'refused'); END"
            app.app_db.write(lambda tx: tx.execute(fail))
        headers = {**writer, "Idempotency-Key": "abc"}
        statuses = [
            app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers).status_code
            for _ in range(2)
        ]
        assert statuses[0] == 502
        assert app.platform.count("/calls") == 1
        assert is_log_broken or list_writes(app.app_db)[0]["result"].startswith("no response")

    def test_slow_write_is_504(self, app: TestApp) -> None:
        app.platform.routes["/calls"] = lambda request, reply: app.platform.stopping.wait(5)
        response = app.client.post(f"{app.base}/calls", json={"to": "1"}, headers=app.add_key("w", "write"))
        assert response.status_code == 504


def test_partial_response_keeps_other_fields_of_the_record(app: TestApp, writer: dict[str, str]) -> None:
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


def test_response_with_include_is_replaced_by_a_plain_read(app: TestApp, writer: dict[str, str]) -> None:
    app.put("queues", {"id": 80001, "name": "Support", "users": [1000001, 1000002]})

    def queue(request: Any, reply: Any) -> None:
        reply.json(
            read_fixture("response-queue-patch-200" if request.method == "PATCH" else "response-queue-200")
        )

    app.platform.routes["/queues/80001"] = queue
    body = {"users": [{"id": 1000001, "status": False}]}
    response = app.client.patch(f"{app.base}/queues/80001?include=users", json=body, headers=writer)
    assert response.status_code == 200
    assert response.json["data"]["users"][0] == {"id": 1000001, "status": False}
    assert find_record(app.mirror_db, "queues", 80001)["users"] == [1000001, 1000002]


def test_subresource_is_not_stored_as_a_record_of_the_collection(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/cdrs/1/remarks", {"data": {"id": 5, "text": "x"}, "links": {}}, 201)
    assert (
        app.client.post(f"{app.base}/cdrs/1/remarks", json={"text": "x"}, headers=writer).status_code == 201
    )
    assert find_record(app.mirror_db, "cdrs", 5) is None


def test_successful_write_is_returned_though_the_mirror_fails(
    own_app: TestApp, own_writer: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    trigger = (
        "CREATE TRIGGER failure BEFORE INSERT ON calls"
        " BEGIN SELECT RAISE(ABORT, 'simulated storage failure'); END"
    )
    own_app.mirror_db.write(lambda tx: tx.execute(trigger))
    own_app.platform.respond("/calls", {"data": {"id": 7}, "links": {}}, 201)
    headers = own_writer | {"Idempotency-Key": "once"}
    for _ in range(2):
        assert (
            own_app.client.post(f"{own_app.base}/calls", json={"to": "1"}, headers=headers).status_code == 201
        )
    assert "simulated storage failure" in caplog.text
    assert own_app.platform.count("/calls") == 1


def test_records_of_a_bulk_patch_are_refreshed(app: TestApp, writer: dict[str, str]) -> None:
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


def test_record_with_list_form_and_item_form_is_stored_in_both(app: TestApp, writer: dict[str, str]) -> None:
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


def test_writes_can_be_switched_off(tmp_path: Path, platform: FakeExchange) -> None:
    with running_app(tmp_path, platform=platform, facade__writes="false") as app:
        response = app.client.post(f"{app.base}/sms", json={}, headers=app.add_key("w", "write"))
        assert response.status_code == 403
        assert "facade.writes" in response.json["message"]
        assert platform.requests == []
