"""Passed-through files: streamed, of any size, never silently truncated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.platform_api import session, shared_download
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp, running_wired_app
from tests.support.fake_exchange import USER
from tests.support.harness import wait_for

URL = "/users/1000002/audio/greeting.mp3"
SOUND = bytes(range(256)) * 4096
HALF = len(SOUND) // 2
MINE = {"X-Auth-Token": USER}
CHUNKED = "Transfer-Encoding: chunked\r\n"
LENGTH = f"Content-Length: {len(SOUND)}\r\n"


@pytest.fixture
def rest() -> threading.Event:
    return threading.Event()


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    """Application of the module, with a platform behind a real connection."""
    with running_wired_app(tmp_path_factory.mktemp("shared")) as app:
        yield app


@pytest.fixture
def send_slowly(app: TestApp, rest: threading.Event) -> Callable[..., None]:
    """Makes the platform send half of the file, and `end` after `rest`."""

    def send_slowly(end: bytes = SOUND[HALF:], length_header: str = LENGTH) -> None:
        def send(request: Any, reply: Any) -> None:
            reply.raw(f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n{length_header}\r\n".encode())
            reply.raw(SOUND[:HALF] if length_header == LENGTH else b"%x\r\n%b\r\n" % (HALF, SOUND[:HALF]))
            rest.wait(10)
            reply.raw(end, close=True)

        app.platform.routes[URL] = send

    return send_slowly


def test_first_bytes_are_sent_before_the_file_is_complete(
    app: TestApp, send_slowly: Callable[..., None], rest: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "JSON_LIMIT", 1000)
    send_slowly()
    response = app.get(URL, MINE)
    assert (response.status_code, response.content_type) == (200, "audio/mpeg")
    assert int(response.headers["Content-Length"]) == len(SOUND)
    body = iter(response.response)
    first = next(body)
    assert not rest.is_set()
    rest.set()
    assert first + b"".join(body) == SOUND


def test_truncated_file_is_shorter_than_its_content_length(
    app: TestApp, send_slowly: Callable[..., None], rest: threading.Event
) -> None:
    send_slowly(b"")
    response = app.get(URL, MINE)
    rest.set()
    assert b"".join(response.response) == SOUND[:HALF]
    assert int(response.headers["Content-Length"]) == len(SOUND)


@pytest.mark.parametrize(
    ("end", "status"), [(b"%x\r\n%b\r\n0\r\n\r\n" % (HALF, SOUND[HALF:]), 200), (b"", 502)]
)
def test_file_without_a_length_is_received_completely_first(
    app: TestApp, send_slowly: Callable[..., None], rest: threading.Event, end: bytes, status: int
) -> None:
    rest.set()
    send_slowly(end, CHUNKED)
    response = app.get(URL, MINE)
    assert response.status_code == status
    if status == 200:
        assert (int(response.headers["Content-Length"]), response.data) == (len(SOUND), SOUND)


def test_download_ends_when_the_client_disconnects(app: TestApp, rest: threading.Event) -> None:
    disconnected = threading.Event()

    def send_until_disconnected(request: Any, reply: Any) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: {200 * len(SOUND)}\r\n\r\n"
        reply.raw(head.encode() + SOUND)
        rest.wait(10)
        try:
            for _ in range(199):
                reply.raw(SOUND)
        except OSError:
            disconnected.set()
            raise

    app.platform.routes[URL] = send_until_disconnected
    response = app.get(URL, MINE)
    next(iter(response.response))
    response.close()
    rest.set()
    wait_for(lambda: app.context.platform.budget.active_requests == 0, "the end of the request")
    assert disconnected.wait(10), "the rest was downloaded without a reader"


def test_full_disk_does_not_fail_a_passed_through_file(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared_download.tempfile, "TemporaryFile", full)
    app.platform.routes[URL] = lambda request, reply: reply.content(b"sound", "audio/mpeg")
    assert app.get(URL, MINE).data == b"sound"
    assert app.context.platform.budget.active_requests == 0


def test_local_key_gets_files_and_error_responses_of_the_platform(app: TestApp) -> None:
    app.platform.routes["/transactions/1.pdf"] = lambda request, reply: reply.content(
        b"%PDF-1.4", "application/pdf", headers={"Content-Disposition": "attachment; filename=1.pdf"}
    )
    response = app.get("/transactions/1.pdf")
    assert (response.data, response.content_type) == (b"%PDF-1.4", "application/pdf")
    assert response.headers["Content-Disposition"] == "attachment; filename=1.pdf"
    app.platform.respond("/transactions/2.pdf", {"message": "no", "errors": []}, 403)
    assert app.get("/transactions/2.pdf").json == {"message": "no", "errors": []}
    app.platform.fail()
    assert app.get("/transactions/1.pdf").status_code == 502
