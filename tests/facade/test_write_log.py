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

from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.records import find_record, list_writes


def test_a_repeat_with_the_same_key_rings_once_and_gets_the_first_answer(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    answers = [app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert answers[0].data == answers[2].data
    assert app.platform.count("/calls") == 1
    assert app.client.post(f"{app.base}/calls", json={"to": "1002"}, headers=headers).status_code == 422
    other = {**app.add_key("other", "write"), "Idempotency-Key": "abc"}
    app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=other)
    assert app.platform.count("/calls") == 2


def test_of_two_at_once_with_the_same_key_one_is_sent(app: TestApp, writer: dict[str, str]) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(_: Any, reply: Any) -> None:
        asked.set()
        answer.wait(10)
        reply.json(read_fixture("response-calls-post-201"), 201)

    app.platform.routes["/calls"] = slow
    headers = {**writer, "Idempotency-Key": "abc"}

    def ring() -> int:
        return app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers).status_code

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ring)
        assert asked.wait(30)
        assert ring() == 409
        answer.set()
        assert first.result(30) == 201
    assert ring() == 201
    assert app.platform.count("/calls") == 1


def test_what_was_done_is_answered_though_it_can_not_be_noted(app: TestApp, writer: dict[str, str]) -> None:
    app.app_db.run_exclusive(lambda connection: connection.execute("PRAGMA busy_timeout = 100"))
    with closing(sqlite3.connect(app.app_db.path, check_same_thread=False)) as other_program:

        def lock(request: Any, reply: Any) -> None:
            other_program.execute("BEGIN IMMEDIATE")
            reply.json(read_fixture("response-calls-post-201"), 201)

        app.platform.routes["/calls"] = lock
        headers = {**writer, "Idempotency-Key": "abc"}
        answer = app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers)
        assert answer.status_code == 201
    assert list_writes(app.app_db)[0]["status"] is None
    assert app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers).status_code == 409
    assert app.platform.count("/calls") == 1


@pytest.mark.parametrize("table", ["journal", "idempotency"])
def test_a_write_log_that_refuses_its_result_changes_no_answer(
    app: TestApp, writer: dict[str, str], table: str
) -> None:
    refuse = f"CREATE TRIGGER refuse BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
    app.app_db.write(lambda tx: tx.execute(refuse))
    app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    answer = app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers)
    assert (answer.status_code, app.platform.count("/calls")) == (201, 1)


def limit_pages(app: TestApp, pages: int) -> None:
    """Limit the size of the application database. SQLite reports a full disk above the limit."""
    app.app_db.run_exclusive(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))


def test_what_can_not_be_journaled_is_not_sent_and_may_be_repeated(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    # The idempotency key fits into an existing page. The body in the write log needs new pages.
    body = {"to": "1001", "notes": ["x" * 900] * 10}
    limit_pages(app, 1)  # SQLite raises the limit to the current size.
    answer = app.client.post(f"{app.base}/calls", json=body, headers=headers)
    assert (answer.status_code, app.platform.count("/calls"), list_writes(app.app_db)) == (503, 0, [])
    limit_pages(app, 1_000_000)
    assert app.client.post(f"{app.base}/calls", json=body, headers=headers).status_code == 201


def test_a_key_is_for_one_request_with_its_query(app: TestApp, writer: dict[str, str]) -> None:
    app.platform.respond("/queues/7", {"data": {"id": 7}, "links": {}})
    headers = {**writer, "Idempotency-Key": "abc"}
    for query, status in (("", 200), ("?include=users", 422)):
        answer = app.client.patch(f"{app.base}/queues/7{query}", json={"name": "A"}, headers=headers)
        assert answer.status_code == status


def test_an_announcement_is_sent_as_it_came_and_its_sound_is_not_in_the_journal(
    app: TestApp, writer: dict[str, str]
) -> None:
    sound = base64.b64encode(bytes(range(256)) * 8000).decode()
    made = {"id": 7, "description": "Closed", "extension": 1001, "created_at": "2026-09-02 08:45:55"}
    app.platform.respond("/vmannouncements", {"data": made, "links": {}}, 201)
    body = json.dumps({"description": "Closed", "content": sound}).encode()
    answer = app.client.post(f"{app.base}/vmannouncements", data=body, headers=writer)
    assert (answer.status_code, answer.json["data"]) == (201, made)
    assert app.platform.requests[-1].body == body
    assert find_record(app.mirror_db, "vmannouncements", 7) == made
    assert len(list_writes(app.app_db)[0]["body"]) < 1000


def test_secrets_stay_out_of_the_journal(app: TestApp, writer: dict[str, str]) -> None:
    app.platform.respond("*", {"data": {"id": 1}, "links": {}})
    body = {"name": "TestApp", "pin": "4711", "nested": [{"password": "hunter2"}]}
    app.client.post(f"{app.base}/conferences", json=body, headers=writer)
    text = list_writes(app.app_db)[0]["body"]
    assert "TestApp" in text
    assert "4711" not in text
    assert "hunter2" not in text
