"""Size of the write-ahead log beside readers."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from integration.sqlite import wal
from integration.sqlite.database import Database
from integration.sqlite.readers import build_readonly_uri

LIMIT = 1024 * 1024
COMMITS_OF_LIMIT = 64
READ_SECONDS = 0.02


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(wal, "SIZE_LIMIT_BYTES", LIMIT)
    database = Database(
        tmp_path / "mirror.db",
        prepare=lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS texts (text BLOB)"),
    )
    yield database
    database.close()


def write(database: Database, number: int) -> int:
    """Write `number` times the limit. Returns the largest size of the WAL in bytes."""
    sizes, insert = [], f"INSERT INTO texts VALUES (zeroblob({LIMIT // COMMITS_OF_LIMIT}))"
    for _ in range(number * COMMITS_OF_LIMIT):
        database.write(lambda tx: tx.execute(insert).rowcount)
        sizes.append(database.path.with_name("mirror.db-wal").stat().st_size)
    return max(sizes)


class OverlappingReaders:
    """Two connections that read in turns: each begins before the other ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.states: list[int] = []
        """Rows that each read found, at its begin and at its end."""

    def __enter__(self) -> OverlappingReaders:
        self._thread.start()
        assert self._has_begun.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        uri = build_readonly_uri(self._path)
        with (
            closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as current,
            closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as following,
        ):
            count = self._begin(current)
            self._has_begun.set()
            while not self._stop.wait(READ_SECONDS):
                following_count = self._begin(following)
                self.states += [count, self._count(current)]
                current.execute("COMMIT")
                current, following, count = following, current, following_count

    def _begin(self, connection: sqlite3.Connection) -> int:
        connection.execute("BEGIN")
        return self._count(connection)

    @staticmethod
    def _count(connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count(*) FROM texts").fetchone()[0])


def test_the_log_stays_small_beside_readers_that_overlap(database: Database) -> None:
    with OverlappingReaders(database.path) as readers:
        assert write(database, 12) < 4 * LIMIT
    with database.read() as connection:
        count = connection.execute("SELECT count(*) FROM texts").fetchone()[0]
    assert count == 12 * COMMITS_OF_LIMIT
    assert readers.states[::2] == readers.states[1::2], "each read has one state"


def test_a_long_reader_delays_writes_each_time_the_log_has_doubled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "RESTART_WAIT_MILLISECONDS", 1)
    waits: list[int] = []
    restart = wal.WriteAheadLog.restart
    monkeypatch.setattr(
        wal.WriteAheadLog, "restart", lambda self, size: waits.append(size) or restart(self, size)
    )
    with database.read() as connection:
        connection.execute("SELECT count(*) FROM texts").fetchone()
        assert write(database, 10) > 10 * LIMIT
        assert waits[0] >= LIMIT
        assert all(later >= 2 * size for size, later in pairwise(waits))
    write(database, 2)
    assert database.path.with_name("mirror.db-wal").stat().st_size < 4 * LIMIT
