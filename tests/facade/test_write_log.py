"""Write log and idempotency keys of writes through the facade."""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.support.applications.facade_app import Room, journal, sample, says, stored


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


def test_what_was_done_is_answered_though_it_can_not_be_noted(room: Room, writer: dict[str, str]) -> None:
    room.app_db.run_exclusive(lambda connection: connection.execute("PRAGMA busy_timeout = 100"))
    with closing(sqlite3.connect(room.app_db.path, check_same_thread=False)) as other_program:

        def lock(asked: Any, reply: Any) -> None:
            other_program.execute("BEGIN IMMEDIATE")
            reply.json(sample("response-calls-post-201"), 201)

        room.server.routes[f"{room.base}/calls"] = lock
        headers = {**writer, "Idempotency-Key": "abc"}
        answer = room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers)
        assert answer.status_code == 201
    assert journal(room)[0]["status"] is None
    assert room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers).status_code == 409
    assert room.asked("/calls") == 1


@pytest.mark.parametrize("table", ["journal", "idempotency"])
def test_a_write_log_that_refuses_its_result_changes_no_answer(
    room: Room, writer: dict[str, str], table: str
) -> None:
    refuse = f"CREATE TRIGGER refuse BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
    room.app_db.write(lambda tx: tx.execute(refuse))
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    answer = room.client.post(f"{room.base}/calls", json={"to": "1001"}, headers=headers)
    assert (answer.status_code, room.asked("/calls")) == (201, 1)


def limit_pages(room: Room, pages: int) -> None:
    """Limit the size of the application database. SQLite reports a full disk above the limit."""
    room.app_db.run_exclusive(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))


def test_what_can_not_be_journaled_is_not_sent_and_may_be_repeated(
    room: Room, writer: dict[str, str]
) -> None:
    room.server.routes[f"{room.base}/calls"] = says(sample("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    # The idempotency key fits into an existing page. The body in the write log needs new pages.
    body = {"to": "1001", "notes": ["x" * 900] * 10}
    limit_pages(room, 1)  # SQLite raises the limit to the current size.
    answer = room.client.post(f"{room.base}/calls", json=body, headers=headers)
    assert (answer.status_code, room.asked("/calls"), journal(room)) == (503, 0, [])
    limit_pages(room, 1_000_000)
    assert room.client.post(f"{room.base}/calls", json=body, headers=headers).status_code == 201


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
