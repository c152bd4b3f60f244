"""What a file's reader can rely on: one moment of the mirror, its rows counted, an end that says so."""

from __future__ import annotations

import csv as python_csv
import http.client
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.catalogue import resource
from integration.exports import broken_off, csv
from integration.exports.selection import select
from tests.facade.conftest import Room, room, sample, settings
from tests.harness import Client, Process, free_port, wait_for

__all__ = ["room", "settings"]

CDR = sample("response-cdrs-list-200")["data"][0]


def test_a_file_holds_one_moment_whatever_changes_meanwhile(room: Room) -> None:
    room.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    stream = csv.stream(room.mirror.read, select(resource("cdrs"), {"columns": "id,duration"}), lines=2)
    begun = [next(stream), next(stream)]
    room.mirror.write(lambda tx: tx.execute("DELETE FROM cdrs WHERE id = 6"))
    room.mirror.write(lambda tx: tx.execute("UPDATE cdrs SET duration = 99 WHERE id = 5"))
    room.put("cdrs", {**CDR, "id": 8})
    rows = list(python_csv.reader(io.StringIO(b"".join([*begun, *stream]).decode(), newline="")))[1:]
    assert rows == [[str(number), "18"] for number in range(1, 8)]
    assert stream.rows == 7


def test_whoever_stops_reading_leaves_no_view_open(room: Room) -> None:
    room.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    stream = csv.stream(room.mirror.read, select(resource("cdrs"), {}), lines=2)
    next(stream)
    stream.close()
    stream.close()
    room.mirror.write(lambda tx: tx.execute("DELETE FROM cdrs"))
    with room.mirror.read() as connection:
        assert not connection.execute("SELECT 1 FROM cdrs").fetchone()


@pytest.fixture
def server() -> Iterator[int]:
    port = free_port()
    granian = [str(Path(sys.executable).parent / "granian"), "--interface", "wsgi", "--port", str(port)]
    process = Process([*granian, "--no-access-log", "tests.exports.breaking:app"], {})
    client = Client(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: client.ask("GET", "/")[0] == 404, "the server to answer")
        yield port
    finally:
        process.stop()


def test_a_file_that_broke_off_says_so(server: int) -> None:
    def get(path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", server, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    assert get("/whole") == b'"id"\r\n' * 100
    assert get("/broken").endswith(broken_off.BROKEN_OFF)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        # What has a length and ends before it: a recording that is sent on while it comes.
        get("/short")
