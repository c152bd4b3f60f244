"""Several connections with the same view of a database, while another process commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from integration.sqlite.readers import ReadOnlyDatabase
from integration.sqlite.same_view import ATTEMPTS, open_same_view

COUNT = "SELECT count(*) FROM events"
Reader = Callable[[int], ReadOnlyDatabase]


@pytest.fixture
def make_reader(tmp_path: Path) -> Iterator[Reader]:
    """Function that returns a database; after each of its first `commits` reads a row is added."""
    path = tmp_path / "events.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE events (id INTEGER PRIMARY KEY)")

        def make(commits: int) -> ReadOnlyDatabase:
            left = [commits]

            class ChangingDatabase(ReadOnlyDatabase):
                @contextmanager
                def read(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
                    with super().read(seconds) as connection:
                        connection.execute(COUNT).fetchone()
                        if left[0] > 0:
                            left[0] -= 1
                            writer.execute("INSERT INTO events DEFAULT VALUES")
                        yield connection

            return ChangingDatabase(path)

        yield make


@pytest.mark.parametrize("commits", [0, 1, 2, 7])
def test_all_connections_have_the_view_of_one_commit(make_reader: Reader, commits: int) -> None:
    with open_same_view(make_reader(commits).read, 3) as connections:
        views = [connection.execute(COUNT).fetchone()[0] for connection in connections]
    assert len(views) == 3
    assert len(set(views)) == 1


def test_commits_during_each_attempt_leave_one_connection(make_reader: Reader) -> None:
    with open_same_view(make_reader(ATTEMPTS * 10).read, 3) as connections:
        assert len(connections) == 1
