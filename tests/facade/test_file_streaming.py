"""Files that are not archived yet: sent on while they come, and kept."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from integration.core.health import Health
from integration.facade.blueprint import make_blueprint
from integration.mirror.calls.store import CallStore
from integration.mirror.sync_state import media_files
from integration.sync.context import StandaloneSyncContext
from integration.sync.files import download
from tests.support.applications.facade_app import Room
from tests.support.harness import wait_for

SOUND = b"\xff\xfb" + bytes(range(256)) * 1024
HALF = len(SOUND) // 2
NUMBER = 1052000001
RECORD = {"id": NUMBER, "timestamp": "2026-09-02 08:45:55", "size": len(SOUND)}
URL = f"/monitors/{NUMBER}.mp3"


class Drip:
    """A platform that sends half of the file and the rest when it is told to."""

    def __init__(self, room: Room, *, content: bytes = SOUND, length: int | None = len(SOUND)) -> None:
        self.rest = threading.Event()
        self.room = room

        def say(asked: Any, reply: Any) -> None:
            told = "" if length is None else f"Content-Length: {length}\r\n"
            head = f"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg3\r\n{told}Connection: close\r\n\r\n"
            reply.raw(head.encode() + content[:HALF])
            self.rest.wait(10)
            reply.raw(content[HALF:], close=True)

        room.server.routes[room.base + URL] = say
        room.put("monitors", RECORD)

    @property
    def path(self) -> Path:
        data_dir: Path = self.room.context.settings.storage.data_dir
        return data_dir / media_files.relative_path("recording", NUMBER, RECORD["timestamp"])

    def state(self) -> str | None:
        return get_state(self.room)


def get_state(room: Room) -> str | None:
    with room.mirror_db.read() as connection:
        row = media_files.state(connection, "recording", NUMBER)
    return None if row is None else str(row["state"])


@pytest.fixture
def room(room: Room) -> Room:
    gear = StandaloneSyncContext(room.context.settings, room.mirror_db, room.platform, Health(), CallStore())
    app = Flask(__name__)
    app.register_blueprint(make_blueprint(room.context, partial(download.open_file, gear)))
    room.client = app.test_client()
    return room


def pieces(answer: Any) -> Iterator[bytes]:
    return iter(answer.response)


def test_the_first_bytes_leave_before_the_last_have_come_and_the_file_is_kept(room: Room) -> None:
    drip = Drip(room)
    answer = room.get(URL)
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
    again = room.get(URL)
    assert (again.data, again.headers["ETag"]) == (SOUND, f'"{hashlib.sha256(SOUND).hexdigest()}"')
    assert room.asked(URL) == 1


def test_two_at_once_cause_one_download(room: Room) -> None:
    drip = Drip(room)
    bodies = [pieces(room.get(URL)) for _ in range(2)]
    firsts = [next(body) for body in bodies]
    drip.rest.set()
    assert [first + b"".join(body) for first, body in zip(firsts, bodies, strict=True)] == [SOUND, SOUND]
    assert room.asked(URL) == 1


def test_a_client_that_goes_away_does_not_cost_the_archive_its_copy(room: Room) -> None:
    drip = Drip(room)
    answer = room.get(URL)
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
def test_a_part_of_what_is_still_coming(room: Room, wanted: str, span: slice) -> None:
    drip = Drip(room)
    drip.rest.set()
    answer = room.get(URL, {**room.headers, "Range": wanted})
    start, stop, _ = span.indices(len(SOUND))
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(SOUND)}"
    assert int(answer.headers["Content-Length"]) == stop - start
    assert answer.data == SOUND[span]
    wait_for(lambda: drip.state() == "have", "the whole file in the table")


def test_a_part_that_has_come_does_not_wait_for_the_rest(room: Room) -> None:
    drip = Drip(room)
    assert room.get(URL, {**room.headers, "Range": "bytes=0-99"}).data == SOUND[:100]
    assert drip.state() is None
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")


def test_a_part_beyond_the_end_is_416_and_says_where_the_end_is(room: Room) -> None:
    drip = Drip(room)
    answer = room.get(URL, {**room.headers, "Range": "bytes=9999999-"})
    assert (answer.status_code, answer.json["errors"]) == (416, [])
    assert answer.headers["Content-Range"] == f"bytes */{len(SOUND)}"
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")
    answer = room.get(URL, {**room.headers, "Range": "bytes=9999999-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{len(SOUND)}")


def test_head_tells_the_length_without_waiting_for_the_end(room: Room) -> None:
    drip = Drip(room)
    answer = room.client.head(room.base + URL, headers=room.headers)
    assert (answer.status_code, answer.data) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    drip.rest.set()
    wait_for(lambda: drip.state() == "have", "the file in the table")


def test_a_platform_that_stops_midway_is_told_by_a_short_body_and_leaves_no_file(room: Room) -> None:
    drip = Drip(room, content=SOUND[: HALF + 1000])
    answer = room.get(URL)
    drip.rest.set()
    assert int(answer.headers["Content-Length"]) == len(SOUND)
    assert answer.data == SOUND[: HALF + 1000]
    assert drip.state() == "failed"
    assert list(drip.path.parent.iterdir()) == []
    Drip(room).rest.set()
    assert room.get(URL).data == SOUND


def test_without_a_length_the_record_tells_it(room: Room) -> None:
    drip = Drip(room, content=SOUND[:-1], length=None)
    answer = room.get(URL)
    drip.rest.set()
    assert int(answer.headers["Content-Length"]) == len(SOUND) > len(answer.data)
    assert drip.state() == "failed"


@pytest.mark.parametrize(
    ("content", "length"),
    [(b"<html>" + SOUND[6:], len(SOUND)), (b"not a sound" + SOUND[11:], len(SOUND)), (SOUND, len(SOUND) - 1)],
)
def test_what_is_not_the_file_never_begins(room: Room, content: bytes, length: int) -> None:
    drip = Drip(room, content=content, length=length)
    drip.rest.set()
    answer = room.get(URL)
    assert (answer.status_code, answer.json["errors"]) == (502, [])
    assert not drip.path.exists()
    assert drip.state() == "failed"


def test_an_empty_file_is_none(room: Room) -> None:
    room.put("monitors", {**RECORD, "size": None})
    room.server.routes[room.base + URL] = lambda asked, reply: reply.content(b"", "audio/mpeg3")
    assert room.get(URL).status_code == 502


def test_a_file_shorter_than_any_head_is_sent(room: Room) -> None:
    room.put("monitors", {**RECORD, "size": None})
    room.server.routes[room.base + URL] = lambda asked, reply: reply.content(SOUND[:4], "audio/mpeg3")
    assert room.get(URL).data == SOUND[:4]
    wait_for(lambda: get_state(room) == "have", "the file in the table")


def test_who_reads_faster_than_the_file_comes_waits_and_who_comes_late_gets_all(room: Room) -> None:
    drip = Drip(room)
    early = pieces(room.get(URL))
    got = b""
    while len(got) < HALF:
        got += next(early)
    late = room.get(URL)
    drip.rest.set()
    assert got + b"".join(early) == SOUND
    assert late.data == SOUND
    assert room.asked(URL) == 1
    wait_for(lambda: drip.state() == "have", "the file in the table")
