"""Exports are snapshots with a row count and a truncation marker."""

from __future__ import annotations

import csv as python_csv
import http.client
import io
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.exports import query
from integration.exports.formats import csv
from integration.exports.selection import select
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import read_fixture
from tests.support.harness import Client, Process, free_port, wait_for

CDR = read_fixture("response-cdrs-list-200")["data"][0]


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


def test_export_is_one_snapshot_during_writes(app: TestApp) -> None:
    app.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    stream = csv.stream(
        app.mirror_db.read, select(get_resource("cdrs"), {"columns": "id,duration"}), chunk_rows=2
    )
    begun = [next(stream), next(stream)]
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs WHERE id = 6"))
    app.mirror_db.write(lambda tx: tx.execute("UPDATE cdrs SET duration = 99 WHERE id = 5"))
    app.put("cdrs", {**CDR, "id": 8})
    rows = list(python_csv.reader(io.StringIO(b"".join([*begun, *stream]).decode(), newline="")))[1:]
    assert rows == [[str(number), "18"] for number in range(1, 8)]
    assert stream.row_count == 7


@pytest.mark.parametrize("args", [{}, {"sort": "calldate"}])
def test_closed_stream_releases_its_read_transaction(app: TestApp, args: dict[str, str]) -> None:
    app.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    stream = csv.stream(app.mirror_db.read, select(get_resource("cdrs"), args), chunk_rows=2)
    next(stream)
    next(stream)
    stream.close()
    stream.close()
    app.mirror_db.write(lambda tx: tx.execute("DELETE FROM cdrs"))
    with app.mirror_db.read() as connection:
        assert not connection.execute("SELECT 1 FROM cdrs").fetchone()


@pytest.mark.parametrize("args", [{}, {"sort": "calldate"}])
def test_stalled_stream_is_aborted_and_releases_the_write_ahead_log(
    app: TestApp, args: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()

    def is_log_held() -> bool:
        """Whether a reader keeps part of the write-ahead log from being copied."""
        app.put("cdrs", {**CDR, "id": 8, "duration": next(numbers)})
        with closing(sqlite3.connect(app.mirror_db.path)) as connection:
            _, total, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool(copied < total)

    app.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    stream = csv.stream(app.mirror_db.read, select(get_resource("cdrs"), args), chunk_rows=2)
    stream.prefetch()
    query.close_stalled_streams()
    assert is_log_held()
    real = clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: real() + query.STALLED_SECONDS)
    query.close_stalled_streams()
    assert not is_log_held()
    with pytest.raises(query.ReaderStalled):
        next(stream)


@pytest.fixture
def server() -> Iterator[int]:
    port = free_port()
    granian = [str(Path(sys.executable).parent / "granian"), "--interface", "wsgi", "--port", str(port)]
    process = Process([*granian, "--no-access-log", "tests.exports.truncated_export:app"], {})
    client = Client(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: client.send("GET", "/")[0] == 404, "the server to respond")
        yield port
    finally:
        process.stop()


def test_truncated_response_ends_with_the_marker_or_an_error(server: int) -> None:
    def get(path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", server, timeout=30)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    assert get("/complete") == b'"id"\r\n' * 100
    assert get("/broken").endswith(query.TRUNCATION_MARKER)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        # A body with a length, such as a recording streamed during its download.
        get("/short")
