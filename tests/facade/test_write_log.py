"""Write log and idempotency keys of writes through the facade."""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.records import find_record, list_writes


def test_repeated_idempotency_key_sends_one_call_and_returns_its_response(
    app: TestApp, writer: dict[str, str]
) -> None:
    app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    headers = {**writer, "Idempotency-Key": "abc"}
    responses = [app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers) for _ in range(3)]
    assert [response.status_code for response in responses] == [201] * 3
    assert responses[0].data == responses[2].data
    assert app.platform.count("/calls") == 1
    assert app.client.post(f"{app.base}/calls", json={"to": "1002"}, headers=headers).status_code == 422
    other = {**app.add_key("other", "write"), "Idempotency-Key": "abc"}
    app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=other)
    assert app.platform.count("/calls") == 2


def test_concurrent_write_with_the_same_key_is_409(app: TestApp, writer: dict[str, str]) -> None:
    received, respond = threading.Event(), threading.Event()

    def slow(_: Any, reply: Any) -> None:
        received.set()
        respond.wait(10)
        reply.json(read_fixture("response-calls-post-201"), 201)

    app.platform.routes["/calls"] = slow
    headers = {**writer, "Idempotency-Key": "abc"}

    def ring() -> int:
        return app.client.post(f"{app.base}/calls", json={"to": "1001"}, headers=headers).status_code

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ring)
        assert received.wait(30)
        assert ring() == 409
        respond.set()
        assert first.result(30) == 201
    assert ring() == 201
    assert app.platform.count("/calls") == 1


def test_successful_write_is_returned_though_the_write_log_is_locked(
    own_app: TestApp, own_writer: dict[str, str]
) -> None:
    own_app.app_db.run_exclusive(lambda connection: connection.execute("PRAGMA busy_timeout = 100"))
    with closing(sqlite3.connect(own_app.app_db.path, check_same_thread=False)) as other_program:

        def lock(request: Any, reply: Any) -> None:
            other_program.execute("BEGIN IMMEDIATE")
            reply.json(read_fixture("response-calls-post-201"), 201)

        own_app.platform.routes["/calls"] = lock
        headers = {**own_writer, "Idempotency-Key": "abc"}
        response = own_app.client.post(f"{own_app.base}/calls", json={"to": "1001"}, headers=headers)
        assert response.status_code == 201
    assert list_writes(own_app.app_db)[0]["status"] is None
    assert (
        own_app.client.post(f"{own_app.base}/calls", json={"to": "1001"}, headers=headers).status_code == 409
    )
    assert own_app.platform.count("/calls") == 1


def limit_pages(app: TestApp, pages: int) -> None:
    """Limit the size of the application database.

    SQLite reports a full disk above the limit.
    """
    app.app_db.run_exclusive(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))


def test_write_that_cannot_be_logged_is_503_and_not_sent(
    own_app: TestApp, own_writer: dict[str, str]
) -> None:
    own_app.platform.respond("/calls", read_fixture("response-calls-post-201"), 201)
    headers = {**own_writer, "Idempotency-Key": "abc"}
    # The idempotency key fits into an existing page. The body in the write log needs new pages.
    body = {"to": "1001", "notes": ["x" * 900] * 10}
    limit_pages(own_app, 1)  # SQLite raises the limit to the current size.
    response = own_app.client.post(f"{own_app.base}/calls", json=body, headers=headers)
    assert (response.status_code, own_app.platform.count("/calls"), list_writes(own_app.app_db)) == (
        503,
        0,
        [],
    )
    limit_pages(own_app, 1_000_000)
    assert own_app.client.post(f"{own_app.base}/calls", json=body, headers=headers).status_code == 201


def test_announcement_is_sent_unchanged_and_its_audio_is_not_logged(
    app: TestApp, writer: dict[str, str]
) -> None:
    sound = base64.b64encode(bytes(range(256)) * 8000).decode()
    made = {"id": 7, "description": "Closed", "extension": 1001, "created_at": "2026-09-02 08:45:55"}
    app.platform.respond("/vmannouncements", {"data": made, "links": {}}, 201)
    body = json.dumps({"description": "Closed", "content": sound}).encode()
    response = app.client.post(f"{app.base}/vmannouncements", data=body, headers=writer)
    assert (response.status_code, response.json["data"]) == (201, made)
    assert app.platform.requests[-1].body == body
    assert find_record(app.mirror_db, "vmannouncements", 7) == made
    assert len(list_writes(app.app_db)[0]["body"]) < 1000


def test_secrets_are_not_stored_in_the_write_log(app: TestApp, writer: dict[str, str]) -> None:
    app.platform.respond("*", {"data": {"id": 1}, "links": {}})
    body = {"name": "TestApp", "pin": "4711", "nested": [{"password": "hunter2"}]}
    app.client.post(f"{app.base}/conferences", json=body, headers=writer)
    text = list_writes(app.app_db)[0]["body"]
    assert "TestApp" in text
    assert "4711" not in text
    assert "hunter2" not in text
