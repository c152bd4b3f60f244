"""Files that are not archived yet: streamed while they are downloaded."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.mirror.sync_state import media_files
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp, running_wired_app
from tests.support.harness import wait_for

SOUND = b"\xff\xfb" + bytes(range(256)) * 1024
HALF = len(SOUND) // 2
NUMBER = 1052000001
RECORD = {"id": NUMBER, "timestamp": "2026-09-02 08:45:55", "size": len(SOUND)}
URL = f"/monitors/{NUMBER}.mp3"


class SlowFile:
    """A file that the platform sends in halves, the second after `rest`."""

    def __init__(self, app: TestApp, *, content: bytes = SOUND, length: int | None = len(SOUND)) -> None:
        self.rest = threading.Event()
        self.app = app

        def send(request: Any, reply: Any) -> None:
            length_header = "" if length is None else f"Content-Length: {length}\r\n"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg3\r\n{length_header}Connection: close\r\n\r\n"
            reply.raw(head.encode() + content[:HALF])
            self.rest.wait(10)
            reply.raw(content[HALF:], close=True)

        app.platform.routes[URL] = send
        app.put("monitors", RECORD)

    @property
    def path(self) -> Path:
        data_dir: Path = self.app.context.settings.storage.data_dir
        return data_dir / media_files.relative_path("recording", NUMBER, RECORD["timestamp"])

    def state(self) -> str | None:
        return get_state(self.app)


def get_state(app: TestApp) -> str | None:
    with app.mirror_db.read() as connection:
        row = media_files.state(connection, "recording", NUMBER)
    return None if row is None else str(row["state"])


@pytest.fixture(scope="module")
def module_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    """Application of the module, with a platform behind a real connection."""
    with running_wired_app(tmp_path_factory.mktemp("shared")) as app:
        yield app


def iter_body(response: Any) -> Iterator[bytes]:
    return iter(response.response)


def test_first_bytes_are_sent_during_the_download_and_the_file_is_archived(app: TestApp) -> None:
    slow_file = SlowFile(app)
    response = app.get(URL)
    assert (response.status_code, response.content_type) == (200, "audio/mpeg")
    assert int(response.headers["Content-Length"]) == len(SOUND)
    body = iter_body(response)
    first = next(body)
    assert first
    assert not slow_file.path.exists()
    slow_file.rest.set()
    assert first + b"".join(body) == SOUND
    wait_for(lambda: slow_file.state() == "have", "the file in the table")
    assert slow_file.path.read_bytes() == SOUND
    second = app.get(URL)
    assert (second.data, second.headers["ETag"]) == (SOUND, f'"{hashlib.sha256(SOUND).hexdigest()}"')
    assert app.platform.count(URL) == 1


def test_file_is_archived_though_the_client_disconnects(app: TestApp) -> None:
    slow_file = SlowFile(app)
    response = app.get(URL)
    next(iter_body(response))
    response.close()
    slow_file.rest.set()
    wait_for(lambda: slow_file.state() == "have", "the file in the table")
    assert slow_file.path.read_bytes() == SOUND


@pytest.mark.parametrize(
    ("range_header", "span"),
    [
        ("bytes=5-9", slice(5, 10)),
        ("bytes=-7", slice(-7, None)),
        ("bytes=-9999999", slice(None)),
        (f"bytes={HALF + 3}-", slice(HALF + 3, None)),
    ],
)
def test_range_request_during_a_download_returns_the_range(
    app: TestApp, range_header: str, span: slice
) -> None:
    slow_file = SlowFile(app)
    slow_file.rest.set()
    response = app.get(URL, {**app.headers, "Range": range_header})
    start, stop, _ = span.indices(len(SOUND))
    assert response.status_code == 206
    assert response.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(SOUND)}"
    assert int(response.headers["Content-Length"]) == stop - start
    assert response.data == SOUND[span]
    wait_for(lambda: slow_file.state() == "have", "the file in the table")


def test_range_beyond_the_end_is_416_with_the_file_size(app: TestApp) -> None:
    slow_file = SlowFile(app)
    response = app.get(URL, {**app.headers, "Range": "bytes=9999999-"})
    assert (response.status_code, response.json["errors"]) == (416, [])
    assert response.headers["Content-Range"] == f"bytes */{len(SOUND)}"
    slow_file.rest.set()
    wait_for(lambda: slow_file.state() == "have", "the file in the table")
    response = app.get(URL, {**app.headers, "Range": "bytes=9999999-"})
    assert (response.status_code, response.headers["Content-Range"]) == (416, f"bytes */{len(SOUND)}")


def test_interrupted_download_gives_a_short_body_and_no_file(app: TestApp) -> None:
    slow_file = SlowFile(app, content=SOUND[: HALF + 1000])
    response = app.get(URL)
    slow_file.rest.set()
    assert int(response.headers["Content-Length"]) == len(SOUND)
    assert response.data == SOUND[: HALF + 1000]
    assert slow_file.state() == "failed"
    assert list(slow_file.path.parent.iterdir()) == []
    SlowFile(app).rest.set()
    assert app.get(URL).data == SOUND


@pytest.mark.parametrize(
    ("content", "length"),
    [(b"<html>" + SOUND[6:], len(SOUND)), (b"not a sound" + SOUND[11:], len(SOUND)), (SOUND, len(SOUND) - 1)],
)
def test_wrong_content_or_length_is_502_without_a_file(app: TestApp, content: bytes, length: int) -> None:
    slow_file = SlowFile(app, content=content, length=length)
    slow_file.rest.set()
    response = app.get(URL)
    assert (response.status_code, response.json["errors"]) == (502, [])
    assert not slow_file.path.exists()
    assert slow_file.state() == "failed"
