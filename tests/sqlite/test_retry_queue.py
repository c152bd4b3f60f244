"""Retry queue on a table with any columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.sqlite.database import Database
from integration.sqlite.retry_queue import RetryQueue

TABLE = """CREATE TABLE tasks (
    place TEXT, number INTEGER, attempts_left_note TEXT, tries INTEGER NOT NULL DEFAULT 0, due REAL,
    done INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (place, number))"""
QUEUE = RetryQueue(
    "tasks",
    key=("place", "number"),
    delays=(0, 5, 60),
    waiting="done = 0",
    columns="place, number",
    order="number DESC",
    due_at="due",
)
KEY = ("a", 1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "tasks.db", prepare=lambda connection: connection.execute(TABLE))
    opened.write(
        lambda tx: tx.executemany(
            "INSERT INTO tasks (place, number, due) VALUES (?, ?, ?)",
            [("a", 1, 100.0), ("a", 2, 100.0), ("b", 3, 100.0), ("a", 4, 200.0)],
        )
    )
    yield opened
    opened.close()


def due(database: Database, now: float, limit: int = -1, **equal: object) -> list[tuple[object, ...]]:
    with database.read() as connection:
        return [tuple(row) for row in QUEUE.due(connection, now, limit, **equal)]


def row(database: Database) -> dict[str, object]:
    with database.read() as connection:
        return dict(connection.execute("SELECT * FROM tasks WHERE place = 'a' AND number = 1").fetchone())


def test_a_failed_row_is_due_after_its_gap_and_the_last_failure_returns_false(database: Database) -> None:
    fail = lambda tries, now: database.write(  # noqa: E731
        lambda tx: QUEUE.fail(tx, KEY, tries, now, attempts_left_note=f"after {tries}")
    )
    assert fail(1, 1000)
    assert row(database)["due"] == 1005
    assert fail(2, 2000)
    assert (row(database)["tries"], row(database)["due"]) == (2, 2060)
    assert not fail(3, 3000)
    assert row(database) == {
        "place": "a", "number": 1, "attempts_left_note": "after 2", "tries": 2, "due": 2060.0, "done": 0,
    }  # fmt: skip
    assert due(database, 500) == [("a", 4), ("b", 3), ("a", 2)]
    assert due(database, 500, 1, place="a") == [("a", 4)]
    database.write(lambda tx: QUEUE.finish(tx, KEY, 3, done=1))
    assert (row(database)["tries"], row(database)["due"]) == (3, None)
