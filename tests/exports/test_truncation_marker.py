"""Exports that their clients stop reading, or that an error truncates."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.exports import query, routes
from integration.exports.formats import csv
from integration.exports.selection import select
from tests.support.application import TestApp
from tests.support.applications.shared_app import SharedApp
from tests.support.fake_exchange import read_fixture

CDR = read_fixture("response-cdrs-list-200")["data"][0]


@pytest.fixture
def app(shared_app: SharedApp) -> TestApp:
    return shared_app


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


def test_a_truncated_export_ends_with_the_marker(app: TestApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Granian sends the final chunk even after an error, so that the transfer looks complete."""

    def fail_after_two_chunks(stream: query.ChunkedFile) -> Iterator[bytes]:
        yield next(stream)
        yield next(stream)
        raise OSError("the disk failed")

    app.put("cdrs", *({**CDR, "id": number} for number in range(1, 8)))
    mark = query.mark_if_truncated
    monkeypatch.setattr(csv, "CHUNK_ROWS", 2)
    monkeypatch.setattr(routes, "mark_if_truncated", lambda stream: mark(fail_after_two_chunks(stream)))
    data = app.client.get("/exports/cdrs.csv?columns=id", headers=app.headers).data
    assert data.startswith(b'"id"\r\n1\r\n')
    assert data.endswith(query.TRUNCATION_MARKER)
