"""Files that are only passed on: while they come, however large, and never short unseen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from integration.platform_api import session, shared_download
from tests.support.application import TestApp
from tests.support.fake_exchange import USER
from tests.support.harness import wait_for
from tests.support.scripted_server import Server

URL = "/users/1000002/audio/greeting.mp3"
SOUND = bytes(range(256)) * 4096
HALF = len(SOUND) // 2
MINE = {"X-Auth-Token": USER}
CHUNKED = "Transfer-Encoding: chunked\r\n"
LENGTH = f"Content-Length: {len(SOUND)}\r\n"


@pytest.fixture
def rest() -> threading.Event:
    return threading.Event()


@pytest.fixture
def platform(wired_platform: Server) -> Server:
    return wired_platform


@pytest.fixture
def drip(app: TestApp, rest: threading.Event) -> Callable[..., None]:
    """The platform sends half of the file, and `end` when it is told to."""

    def drip(end: bytes = SOUND[HALF:], told: str = LENGTH) -> None:
        def say(request: Any, reply: Any) -> None:
            reply.raw(f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n{told}\r\n".encode())
            reply.raw(SOUND[:HALF] if told == LENGTH else b"%x\r\n%b\r\n" % (HALF, SOUND[:HALF]))
            rest.wait(10)
            reply.raw(end, close=True)

        app.platform.routes[URL] = say

    return drip


def test_the_first_bytes_leave_before_the_last_have_come(
    app: TestApp, drip: Callable[..., None], rest: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "JSON_LIMIT", 1000)
    drip()
    answer = app.get(URL, MINE)
    assert (answer.status_code, answer.content_type) == (200, "audio/mpeg")
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    body = iter(answer.response)
    first = next(body)
    assert not rest.is_set()
    rest.set()
    assert first + b"".join(body) == SOUND


def test_a_slow_reader_holds_no_request_to_the_platform(app: TestApp) -> None:
    app.platform.routes[URL] = lambda request, reply: reply.content(SOUND, "audio/mpeg")
    answer = app.get(URL, MINE)
    wait_for(lambda: app.context.platform.budget.active_requests == 0, "the end of the platform's part")
    assert answer.data == SOUND


def test_a_file_that_ends_early_is_short_of_its_length(
    app: TestApp, drip: Callable[..., None], rest: threading.Event
) -> None:
    drip(b"")
    answer = app.get(URL, MINE)
    rest.set()
    assert b"".join(answer.response) == SOUND[:HALF]
    assert int(answer.headers["Content-Length"]) == len(SOUND)


@pytest.mark.parametrize(
    ("end", "status"), [(b"%x\r\n%b\r\n0\r\n\r\n" % (HALF, SOUND[HALF:]), 200), (b"", 502)]
)
def test_a_file_without_a_length_is_waited_for(
    app: TestApp, drip: Callable[..., None], rest: threading.Event, end: bytes, status: int
) -> None:
    rest.set()
    drip(end, CHUNKED)
    answer = app.get(URL, MINE)
    assert answer.status_code == status
    if status == 200:
        assert (int(answer.headers["Content-Length"]), answer.data) == (len(SOUND), SOUND)


def test_who_goes_away_ends_it(app: TestApp, rest: threading.Event) -> None:
    cut = threading.Event()

    def send_until_cut(request: Any, reply: Any) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: {200 * len(SOUND)}\r\n\r\n"
        reply.raw(head.encode() + SOUND)
        rest.wait(10)
        try:
            for _ in range(199):
                reply.raw(SOUND)
        except OSError:
            cut.set()
            raise

    app.platform.routes[URL] = send_until_cut
    answer = app.get(URL, MINE)
    next(iter(answer.response))
    answer.close()
    rest.set()
    wait_for(lambda: app.context.platform.budget.active_requests == 0, "the end of the request")
    assert cut.wait(10), "the rest was fetched for no reader"


def test_a_disk_that_is_full_costs_no_request(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared_download.tempfile, "TemporaryFile", full)
    app.platform.routes[URL] = lambda request, reply: reply.content(b"sound", "audio/mpeg")
    assert app.get(URL, MINE).data == b"sound"
    assert app.context.platform.budget.active_requests == 0


def test_a_local_key_gets_files_and_the_platforms_refusals(app: TestApp) -> None:
    app.platform.routes["/transactions/1.pdf"] = lambda request, reply: reply.content(
        b"%PDF-1.4", "application/pdf", headers={"Content-Disposition": "attachment; filename=1.pdf"}
    )
    answer = app.get("/transactions/1.pdf")
    assert (answer.data, answer.content_type) == (b"%PDF-1.4", "application/pdf")
    assert answer.headers["Content-Disposition"] == "attachment; filename=1.pdf"
    app.platform.respond("/transactions/2.pdf", {"message": "no", "errors": []}, 403)
    assert app.get("/transactions/2.pdf").json == {"message": "no", "errors": []}
    app.platform.fail()
    assert app.get("/transactions/1.pdf").status_code == 502
