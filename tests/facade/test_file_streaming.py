"""Files that are not archived yet: sent on while they come, and kept."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.mirror.sync_state import media_files
from tests.support.application import TestApp
from tests.support.harness import wait_for
from tests.support.scripted_server import Server

SOUND = b"\xff\xfb" + bytes(range(256)) * 1024
HALF = len(SOUND) // 2
NUMBER = 1052000001
RECORD = {"id": NUMBER, "timestamp": "2026-09-02 08:45:55", "size": len(SOUND)}
URL = f"/monitors/{NUMBER}.mp3"


class Drip:
    """A platform that sends half of the file and the rest when it is told to."""

    def __init__(self, app: TestApp, *, content: bytes = SOUND, length: int | None = len(SOUND)) -> None:
        self.rest = threading.Event()
        self.app = app

        def say(request: Any, reply: Any) -> None:
            told = "" if length is None else f"Content-Length: {length}\r\n"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg3\r\n{told}Connection: close\r\n\r\n"
            reply.raw(head.encode() + content[:HALF])
            self.rest.wait(10)
            reply.raw(content[HALF:], close=True)

        app.platform.routes[URL] = say
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


@pytest.fixture
def platform(wired_platform: Server) -> Server:
    return wired_platform


def pieces(answer: Any) -> Iterator[bytes]:
    return iter(answer.response)


def test_the_first_bytes_leave_before_the_last_have_come_and_the_file_is_kept(app: TestApp) -> None:
    drip = Drip(app)
    answer = app.get(URL)
    assert (answer.status_code, answer.content_type) == (200, "audio/mpeg")
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    body = pieces(answer)
    first = next(body)
    assert first
    assert not drip.path.exists()
    drip.rest.set()
    assert first + b"".join(body) == SOUND
    wait_for(lambda: drip.state() == "have", "the file in the table")
    assert drip.path.read_bytes() == SOUND
    again = app.get(URL)
    assert (again.data, again.headers["ETag"]) == (SOUND, f'"{hashlib.sha256(SOUND).hexdigest()}"')
    assert app.platform.count(URL) == 1


def test_two_at_once_cause_one_download(app: TestApp) -> None:
    drip = Drip(app)
    bodies = [pieces(app.get(URL)) for _ in range(2)]
    firsts = [next(body) for body in bodies]
    drip.rest.set()
    assert [first + b"".join(body) for first, body in zip(firsts, bodies, strict=True)] == [SOUND, SOUND]
    assert app.platform.count(URL) == 1


def test_a_client_that_goes_away_does_not_cost_the_archive_its_copy(app: TestApp) -> None:
    drip = Drip(app)
    answer = app.get(URL)
    next(pieces(answer))
    answer.close()
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")
    assert drip.path.read_bytes() == SOUND


@pytest.mark.parametrize(
    ("wanted", "span"),
    [
        ("bytes=5-9", slice(5, 10)),
        ("bytes=-7", slice(-7, None)),
        (f"bytes={HALF + 3}-", slice(HALF + 3, None)),
    ],
)
def test_a_part_of_what_is_still_coming(app: TestApp, wanted: str, span: slice) -> None:
    drip = Drip(app)
    drip.rest.set()
    answer = app.get(URL, {**app.headers, "Range": wanted})
    start, stop, _ = span.indices(len(SOUND))
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(SOUND)}"
    assert int(answer.headers["Content-Length"]) == stop - start
    assert answer.data == SOUND[span]
    wait_for(lambda: drip.state() == "have", "the whole file in the table")


def test_a_part_that_has_come_does_not_wait_for_the_rest(app: TestApp) -> None:
    drip = Drip(app)
    assert app.get(URL, {**app.headers, "Range": "bytes=0-99"}).data == SOUND[:100]
    assert drip.state() == "wanted"
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")


def test_a_part_beyond_the_end_is_416_and_says_where_the_end_is(app: TestApp) -> None:
    drip = Drip(app)
    answer = app.get(URL, {**app.headers, "Range": "bytes=9999999-"})
    assert (answer.status_code, answer.json["errors"]) == (416, [])
    assert answer.headers["Content-Range"] == f"bytes */{len(SOUND)}"
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")
    answer = app.get(URL, {**app.headers, "Range": "bytes=9999999-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{len(SOUND)}")


def test_head_tells_the_length_without_waiting_for_the_end(app: TestApp) -> None:
    drip = Drip(app)
    answer = app.client.head(app.base + URL, headers=app.headers)
    assert (answer.status_code, answer.data) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")


def test_a_platform_that_stops_midway_is_told_by_a_short_body_and_leaves_no_file(app: TestApp) -> None:
    drip = Drip(app, content=SOUND[: HALF + 1000])
    answer = app.get(URL)
    drip.rest.set()
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    assert answer.data == SOUND[: HALF + 1000]
    assert drip.state() == "failed"
    assert list(drip.path.parent.iterdir()) == []
    Drip(app).rest.set()
    assert app.get(URL).data == SOUND


def test_without_a_length_the_record_tells_it(app: TestApp) -> None:
    drip = Drip(app, content=SOUND[:-1], length=None)
    answer = app.get(URL)
    drip.rest.set()
    assert int(answer.headers["Content-Length"]) == len(SOUND) > len(answer.data)
    assert drip.state() == "failed"


@pytest.mark.parametrize(
    ("content", "length"),
    [(b"<html>" + SOUND[6:], len(SOUND)), (b"not a sound" + SOUND[11:], len(SOUND)), (SOUND, len(SOUND) - 1)],
)
def test_what_is_not_the_file_never_begins(app: TestApp, content: bytes, length: int) -> None:
    drip = Drip(app, content=content, length=length)
    drip.rest.set()
    answer = app.get(URL)
    assert (answer.status_code, answer.json["errors"]) == (502, [])
    assert not drip.path.exists()
    assert drip.state() == "failed"


def test_an_empty_file_is_none(app: TestApp) -> None:
    app.put("monitors", {**RECORD, "size": None})
    app.platform.routes[URL] = lambda request, reply: reply.content(b"", "audio/mpeg3")
    assert app.get(URL).status_code == 502


def test_a_file_shorter_than_any_head_is_sent(app: TestApp) -> None:
    app.put("monitors", {**RECORD, "size": None})
    app.platform.routes[URL] = lambda request, reply: reply.content(SOUND[:4], "audio/mpeg3")
    assert app.get(URL).data == SOUND[:4]
    wait_for(lambda: get_state(app) == "have", "the file in the table")


def test_who_reads_faster_than_the_file_comes_waits_and_who_comes_late_gets_all(app: TestApp) -> None:
    drip = Drip(app)
    early = pieces(app.get(URL))
    got = b""
    while len(got) < HALF:
        got += next(early)
    late = app.get(URL)
    drip.rest.set()
    assert got + b"".join(early) == SOUND
    assert late.data == SOUND
    assert app.platform.count(URL) == 1
    wait_for(lambda: drip.state() == "have", "the file in the table")
