"""The write-through service: one request per idempotency key, and what repeats get."""

from __future__ import annotations

from typing import Any

import pytest

from integration.sync.writing import write_through
from integration.sync.writing.write_through import WriteRequest, WriteResult
from tests.support.applications.facade_app import Room, journal, says, stored

CONTACT = {"id": 7001, "first_name": "Grace", "pin": "4711"}


def send(room: Room, path: str = "/contacts", method: str = "POST", **options: Any) -> WriteResult:
    """Send a write under the idempotency key `one`."""
    options = {"body": b'{"first_name":"Grace"}', "idempotency_key": "one", **options}
    return write_through.send(room.context, WriteRequest("ann", "::1", method, path, **options))


def respond(room: Room, path: str, value: Any, status: int = 200) -> None:
    room.server.routes[room.base + path] = says(value, status)


def test_repeat_returns_the_record_and_stores_no_secret(room: Room) -> None:
    respond(room, "/contacts", {"data": CONTACT, "links": {}}, 201)
    first, repeat = send(room), send(room)
    assert first.record is not None
    assert first.record.values == CONTACT
    assert repeat.record is not None
    assert (repeat.status, repeat.body, repeat.record.values["id"]) == (201, first.body, 7001)
    assert b"4711" not in repeat.body
    assert stored(room, "contacts", 7001) == CONTACT
    assert room.asked("/contacts") == 1


def test_repeat_without_a_first_response_returns_the_same_problem(room: Room) -> None:
    room.server.routes[f"{room.base}/contacts"] = lambda request, reply: reply.raw(b"", close=True)
    first, repeat = send(room), send(room)
    assert first.status is None
    assert "It may have been done" in first.message
    assert (repeat.message, repeat.problem) == (first.message, first.problem)
    assert room.asked("/contacts") == 1


class TestTimeout:
    @pytest.fixture
    def settings(self, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr(write_through, "WRITE_TIMEOUT_SECONDS", 0.2)
        settings["platform"]["timeout"] = 0.2
        return settings

    def test_repeat_of_a_timeout_is_a_timeout(self, room: Room) -> None:
        room.server.routes[f"{room.base}/contacts"] = lambda request, reply: room.server.stopping.wait(5)
        assert [send(room).has_timed_out for _ in range(2)] == [True, True]


@pytest.mark.parametrize(("may_repeat_refused", "requests"), [(True, 2), (False, 1)])
def test_refused_write_can_be_repeated_only_if_the_request_allows_it(
    room: Room, may_repeat_refused: bool, requests: int
) -> None:
    refusal = {"message": "Wrong", "errors": [{"code": "SF0010", "field": "tel", "message": "too long"}]}
    respond(room, "/contacts", refusal, 400)
    results = [send(room, may_repeat_refused=may_repeat_refused) for _ in range(2)]
    assert [result.status for result in results] == [400, 400]
    assert [result.message for result in results] == ["The platform says: Wrong: tel: too long."] * 2
    assert [result.fields for result in results] == [{"tel": "too long"}] * 2
    assert room.asked("/contacts") == requests


def test_write_that_cannot_be_logged_is_not_sent_and_keeps_no_key(room: Room) -> None:
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'refused'); END"
    room.app_db.write(lambda tx: tx.execute(refuse))
    respond(room, "/contacts", {"data": CONTACT, "links": {}}, 201)
    with pytest.raises(Exception, match="refused"):
        send(room, may_repeat_refused=True)
    room.app_db.write(lambda tx: tx.execute("DROP TRIGGER refuse"))
    assert send(room, may_repeat_refused=True).status == 201
    assert (room.asked("/contacts"), len(journal(room))) == (1, 1)


def test_ended_call_leaves_the_live_table(room: Room) -> None:
    room.put("calls", {"id": 5, "state": "CONNECTED"})
    room.server.routes[f"{room.base}/calls/5"] = lambda request, reply: reply.content(b"", "text/plain", 204)
    assert send(room, "/calls/5", "DELETE", body=None).is_done
    with room.mirror_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM calls").fetchone()[0] == 0
