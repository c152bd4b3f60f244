"""Deletions: by ids, of an entire collection, and accepted ones that are pending."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from integration.core import clock
from integration.mirror.sync_state import pending_deletions
from integration.sync.writing.deletion_poller import poll_due
from tests.support.applications.facade_app import Room, says, stored


def make_deletions_due(room: Room) -> None:
    """Make every pending deletion due for its next check."""
    room.mirror_db.write(lambda tx: tx.execute("UPDATE _accepted SET due_at = 0"))


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
    with room.mirror_db.read() as connection:
        assert connection.execute("SELECT count(*) FROM monitors").fetchone()[0] == 3


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

    @pytest.mark.parametrize("settings", [{"destructive": True}], indirect=True)
    def test_destructive_deletes_can_be_allowed(self, room: Room) -> None:
        room.put("cdrs", {"id": 1})
        room.server.routes[f"{room.base}/cdrs"] = lambda asked, reply: reply.content(b"", "text/plain", 204)
        assert room.client.delete(f"{room.base}/cdrs", headers=room.key("w", "write")).status_code == 204
        assert room.get("/cdrs").json == {"data": [], "total": 0}


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
    make_deletions_due(room)
    left.pop()
    poll_due(room.context)
    assert shown() == [1, 3]
    make_deletions_due(room)
    left.clear()
    poll_due(room.context)
    assert shown() == [3]
    with room.mirror_db.read() as connection:
        assert pending_deletions.due(connection, clock.unix() + 1e9) == []


def test_who_deletes_does_not_wait_for_the_schedulers_turn(room: Room, writer: dict[str, str]) -> None:
    room.put("monitors", {"id": 1})
    room.server.routes[f"{room.base}/monitors/1"] = says({"message": "Accepted"}, 202)
    room.server.routes[f"{room.base}/monitors"] = says({"data": [], "total": 0})
    room.platform.budget.record_failure(3600)
    deleting = ThreadPoolExecutor(1).submit(room.client.delete, f"{room.base}/monitors/1", headers=writer)
    try:
        assert deleting.result(30).status_code == 202
    finally:
        room.platform.close()
    assert stored(room, "monitors", 1) is None


@pytest.mark.exhaustive
def test_an_accepted_deletion_waits_while_the_platform_is_away_and_is_given_up_in_the_end(
    room: Room, writer: dict[str, str]
) -> None:
    room.put("monitors", {"id": 1})
    room.server.routes[f"{room.base}/monitors/1"] = says({"message": "Accepted"}, 202)
    room.server.routes["*"] = says({"message": "down", "errors": []}, 503)
    assert room.client.delete(f"{room.base}/monitors/1", headers=writer).status_code == 202
    for _ in pending_deletions.RETRY_DELAYS:
        make_deletions_due(room)
        poll_due(room.context)
    assert [record["id"] for record in room.get("/monitors").json["data"]] == [1]
    with room.mirror_db.read() as connection:
        assert pending_deletions.due(connection, clock.unix() + 1e9) == []
