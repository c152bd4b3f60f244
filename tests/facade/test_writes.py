"""Writes: the platform first, then the mirror, then the answer; once, journaled, without secrets."""

from __future__ import annotations

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from integration.access import keys
from integration.catalogue import resource
from integration.core import clock
from integration.core.errors import StorageFull
from integration.facade import writes
from integration.mirror.records import single_record as records
from integration.mirror.sync_state import pending_deletions as accepted
from integration.sync.writing.deletion_poller import follow_up
from tests.facade.conftest import Room, sample, says

SMS = sample("response-sms-list-200")["data"][0]


@pytest.fixture
def writer(room: Room) -> dict[str, str]:
    return room.key("writer", "write")


def journal(room: Room) -> list[dict[str, Any]]:
    with room.people.read() as connection:
        return [dict(row) for row in connection.execute("SELECT * FROM journal ORDER BY id")]


def stored(room: Room, collection: str, key: int) -> dict[str, Any] | None:
    with room.mirror.read() as connection:
        found = records.stored(connection, resource(collection), key)
    return None if found is None or found.missing else json.loads(found.doc)


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
        monkeypatch.setattr("integration.facade.writes.SLOW_SECONDS", 0.2)
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
    room: Room, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "_note", lambda *_: 1 / 0)
    room.server.routes[f"{room.base}/calls"] = says({"data": {"id": 7}, "links": {}}, 201)
    headers = writer | {"Idempotency-Key": "once"}
    for _ in range(2):
        assert room.client.post(f"{room.base}/calls", json={"to": "1"}, headers=headers).status_code == 201
    assert room.asked("/calls") == 1


def test_deletes_by_ids_are_gone_from_the_facade_and_kept_in_the_table(
    room: Room, writer: dict[str, str]
) -> None:
    room.put("monitors", *[{"id": n, "timestamp": "2026-09-02 08:45:55"} for n in (1, 2, 3)])
    room.server.routes[f"{room.base}/monitors/1,2"] = lambda asked, reply: reply.content(
        b"", "text/plain", 204
    )
    answer = room.client.delete(f"{room.base}/monitors/1,2", headers=writer)
    assert (answer.status_code, answer.data) == (204, b"")
    assert [record["id"] for record in room.get("/monitors").json["data"]] == [3]
    with room.mirror.read() as connection:
        assert connection.execute("SELECT count(*) FROM monitors").fetchone()[0] == 3


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


def test_destructive_deletes_are_refused_until_they_are_allowed(room: Room, writer: dict[str, str]) -> None:
    for path in ("/sms", "/cdrs", "/customers/1", "/faxes", "/voicemessages", "/sms/cannedresponses"):
        answer = room.client.delete(room.base + path, headers=writer)
        assert answer.status_code in (403, 405), path
        assert "destructive" in answer.json["message"] or answer.status_code == 405
    assert room.server.asked == []


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

    @pytest.mark.parametrize("settings", [{"destructive": True}], indirect=True)
    def test_destructive_deletes_can_be_allowed(self, room: Room) -> None:
        room.put("cdrs", {"id": 1})
        room.server.routes[f"{room.base}/cdrs"] = lambda asked, reply: reply.content(b"", "text/plain", 204)
        assert room.client.delete(f"{room.base}/cdrs", headers=room.key("w", "write")).status_code == 204
        assert room.get("/cdrs").json == {"data": [], "total": 0}


def test_a_repeat_with_the_same_key_rings_once_and_gets_the_first_answer(
    room: Room, writer: dict[str, str]
) -> None:
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    answers = [room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert answers[0].data == answers[2].data
    assert room.asked("/calls") == 1
    assert room.client.post(f"{room.base}/calls", json={"to": "1002"}, headers=headers).status_code == 422
    other = {**room.key("other", "write"), "Idempotency-Key": "abc"}
    room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=other)
    assert room.asked("/calls") == 2


def test_of_two_at_once_with_the_same_key_one_is_sent(room: Room, writer: dict[str, str]) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(_: Any, reply: Any) -> None:
        asked.set()
        answer.wait(10)
        reply.json(sample("response-calls-post-201"), 201)

    room.server.routes[f"{room.base}/calls"] = slow
    headers = {**writer, "Idempotency-Key": "abc"}

    def ring() -> int:
        client = room.app.test_client()
        return client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers).status_code

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ring)
        assert asked.wait(30)
        assert ring() == 409
        answer.set()
        assert first.result(30) == 201
    assert ring() == 201
    assert room.asked("/calls") == 1


def full(*_: object, **__: object) -> None:
    raise StorageFull("the disk is full")


def test_what_was_done_is_answered_though_it_can_not_be_noted(
    room: Room, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    for name in ("finish", "settle"):
        monkeypatch.setattr(f"integration.sync.writing.write_log.{name}", full)
    headers = {**writer, "Idempotency-Key": "abc"}
    answer = room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers)
    assert answer.status_code == 201
    assert room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers).status_code == 409
    assert room.asked("/calls") == 1


def test_what_can_not_be_journaled_is_not_sent_and_may_be_repeated(
    room: Room, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    with monkeypatch.context() as patched:
        patched.setattr("integration.sync.writing.write_log.begin", full)
        answer = room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers)
        assert (answer.status_code, room.asked("/calls")) == (503, 0)
    assert room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers).status_code == 201


def test_a_key_is_for_one_request_with_its_query(room: Room, writer: dict[str, str]) -> None:
    room.server.routes[f"{room.base}/queues/7"] = says({"data": {"id": 7}, "links": {}})
    headers = {**writer, "Idempotency-Key": "abc"}
    for query, status in (("", 200), ("?include=users", 422)):
        answer = room.client.patch(f"{room.base}/queues/7{query}", json={"name": "A"}, headers=headers)
        assert answer.status_code == status


def test_an_announcement_is_sent_as_it_came_and_its_sound_is_not_in_the_journal(
    room: Room, writer: dict[str, str]
) -> None:
    sound = base64.b64encode(bytes(range(256)) * 8000).decode()
    made = {"id": 7, "description": "Closed", "extension": 1001, "created_at": "2026-09-02 08:45:55"}
    room.server.routes[f"{room.base}/vmannouncements"] = says({"data": made, "links": {}}, 201)
    body = json.dumps({"description": "Closed", "content": sound}).encode()
    answer = room.client.post(f"{room.base}/vmannouncements", data=body, headers=writer)
    assert (answer.status_code, answer.json["data"]) == (201, made)
    assert room.server.asked[-1].body == body
    assert stored(room, "vmannouncements", 7) == made
    assert len(journal(room)[0]["body"]) < 1000


def test_secrets_stay_out_of_the_journal(room: Room, writer: dict[str, str]) -> None:
    room.server.routes["*"] = says({"data": {"id": 1}, "links": {}})
    body = {"name": "Room", "pin": "4711", "nested": [{"password": "hunter2"}]}
    room.client.post(f"{room.base}/conferences", json=body, headers=writer)
    text = journal(room)[0]["body"]
    assert "Room" in text
    assert "4711" not in text
    assert "hunter2" not in text


def test_a_body_that_is_not_json_is_400_and_a_huge_one_413(
    room: Room, writer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = room.client.post(f"{room.base}/sms", data=b"{", headers=writer)
    assert (answer.status_code, answer.json["errors"]) == (400, [])
    monkeypatch.setattr("integration.facade.writes.MOST_BYTES", 10)
    answer = room.client.post(f"{room.base}/sms", data=b"[1,2,3,4,5,6,7]", headers=writer)
    assert (answer.status_code, answer.json["errors"]) == (413, [])
    assert room.server.asked == []


@pytest.mark.parametrize("kind", ["text/xml", "multipart/form-data; boundary=x", "text/plain;charset=UTF-8"])
def test_a_body_that_says_it_is_no_json_is_400_and_names_the_header(
    room: Room, writer: dict[str, str], kind: str
) -> None:
    for path, headers in (("/sms", writer), ("/login", {})):
        answer = room.client.post(room.base + path, data=b"{}", content_type=kind, headers=headers)
        assert answer.status_code == 400
        assert [entry["field"] for entry in answer.json["errors"]] == ["Content-Type"]
    assert room.server.asked == []


@pytest.mark.parametrize(
    "kind",
    [None, "application/json", "application/json; charset=utf-8", "application/vnd.api+json",
     "application/x-www-form-urlencoded"],
)  # fmt: skip
def test_what_programs_send_json_as_is_taken(room: Room, writer: dict[str, str], kind: str | None) -> None:
    room.server.routes[f"{room.base}/sms"] = says({"data": SMS, "links": {}}, 201)
    answer = room.client.post(f"{room.base}/sms", data=b"{}", content_type=kind, headers=writer)
    assert answer.status_code == 201
    assert room.server.asked[-1].headers["Content-Type"] == "application/json"


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


def test_an_accepted_deletion_is_followed_up_until_it_is_done(room: Room, writer: dict[str, str]) -> None:
    room.put("monitors", *[{"id": n, "timestamp": "2026-09-02 08:45:55"} for n in (1, 2, 3)])
    left = [{"id": 1}, {"id": 2}]

    def accepts(asked: Any, reply: Any) -> None:
        reply.json({"message": "Accepted"}, 202)

    def listed(asked: Any, reply: Any) -> None:
        if asked.method == "DELETE":
            accepts(asked, reply)
        else:
            reply.json({"data": left, "total": len(left)})

    def shown() -> list[int]:
        return [record["id"] for record in room.get("/monitors").json["data"]]

    room.server.routes[f"{room.base}/monitors/1,2"] = accepts
    room.server.routes[f"{room.base}/monitors"] = listed
    assert room.client.delete(f"{room.base}/monitors/1,2", headers=writer).status_code == 202
    assert shown() == [1, 2, 3]
    later(room)
    left.pop()
    follow_up(room.house)
    assert shown() == [1, 3]
    later(room)
    left.clear()
    follow_up(room.house)
    assert shown() == [3]
    with room.mirror.read() as connection:
        assert accepted.due(connection, clock.unix() + 1e9) == []


def test_who_deletes_does_not_wait_for_the_schedulers_turn(room: Room, writer: dict[str, str]) -> None:
    room.put("monitors", {"id": 1})
    room.server.routes[f"{room.base}/monitors/1"] = says({"message": "Accepted"}, 202)
    room.server.routes[f"{room.base}/monitors"] = says({"data": [], "total": 0})
    room.platform.budget.complain(3600)
    deleting = ThreadPoolExecutor(1).submit(room.client.delete, f"{room.base}/monitors/1", headers=writer)
    try:
        assert deleting.result(30).status_code == 202
    finally:
        room.platform.close()
    assert stored(room, "monitors", 1) is None


def later(room: Room) -> None:
    """Whatever waits to be looked at again is due now."""
    room.mirror.write(lambda tx: tx.execute("UPDATE _accepted SET due_at = 0"))


@pytest.mark.exhaustive
def test_an_accepted_deletion_waits_while_the_platform_is_away_and_is_given_up_in_the_end(
    room: Room, writer: dict[str, str]
) -> None:
    room.put("monitors", {"id": 1})
    room.server.routes[f"{room.base}/monitors/1"] = says({"message": "Accepted"}, 202)
    room.server.routes["*"] = says({"message": "down", "errors": []}, 503)
    assert room.client.delete(f"{room.base}/monitors/1", headers=writer).status_code == 202
    for _ in accepted.GAPS:
        later(room)
        follow_up(room.house)
    assert [record["id"] for record in room.get("/monitors").json["data"]] == [1]
    with room.mirror.read() as connection:
        assert accepted.due(connection, clock.unix() + 1e9) == []


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


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**FORM, **EVIL}, 403),
        (EVIL, 403),
        ({**FORM, "Sec-Fetch-Site": "cross-site"}, 403),
        (FORM, 200),
        ({**FORM, "Origin": "http://localhost"}, 200),
        ({**EVIL, "Content-Type": "application/json"}, 200),
    ],
)
def test_another_sites_page_can_not_write_by_what_the_browser_remembers(
    room: Room, headers: dict[str, str], status: int
) -> None:
    """A browser that was asked for Basic credentials here once sends them along with whatever another page
    makes it post, unless that needs a preflight, as JSON by its name does."""
    room.server.routes[f"{room.base}/calls"] = says({"data": {"id": 1}})
    user_id, secret = keys.add(room.people, "browser", "write")
    answer = room.client.post(
        f"{room.base}/calls", data=b'{"to": "442079460001"}', headers=headers, auth=(str(user_id), secret)
    )
    assert answer.status_code == status
    assert room.asked("/calls") == (status == 200)
