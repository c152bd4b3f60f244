"""Lists with cursors: complete pages without duplicates, read from the cursor."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from integration.sqlite.listing import Listing, escape_like


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, at TEXT, name TEXT)")
        connection.execute("CREATE INDEX notes_at ON notes (at)")
        chooser = random.Random(7)
        connection.executemany(
            "INSERT INTO notes VALUES (?, ?, ?)",
            [
                (number, f"2026-09-02 09:00:0{chooser.randrange(4)}", chooser.choice(["a", "B", "b~1", "C"]))
                for number in range(1, 101)
            ],
        )
        yield connection


def read_pages(
    connection: sqlite3.Connection, listing: Listing, select: str, size: int = 7
) -> tuple[list[int], list[str]]:
    """Return the ids of all pages, and the cursors between them."""
    page = listing.fetch_page(connection, select, {}, None, size)
    ids, cursors = [row["id"] for row in page.rows], []
    while page.next is not None:
        assert len(page.rows) == size
        cursors.append(page.next)
        page = listing.fetch_page(connection, select, {}, page.next, size)
        ids += [row["id"] for row in page.rows]
    return ids, cursors


@pytest.mark.parametrize(
    ("order", "has_id", "sql"),
    [
        (("-at", "-id"), True, "at DESC, id DESC"),
        (("at", "id"), True, "at, id"),
        (("-at", "id"), False, "at DESC, id"),
        (("-id",), True, "id DESC"),
        (("sorted", "-id"), True, "name COLLATE NOCASE, id DESC"),
    ],
)
def test_pages_contain_each_row_once_in_order(
    connection: sqlite3.Connection, order: tuple[str, ...], has_id: bool, sql: str
) -> None:
    select = "SELECT *, name COLLATE NOCASE AS sorted FROM notes"
    ids, _ = read_pages(connection, Listing(*order, has_id=has_id), select)
    assert ids == [row["id"] for row in connection.execute(f"SELECT id FROM notes ORDER BY {sql}")]


@pytest.mark.parametrize("size", [1, 7, 14, 86])
@pytest.mark.parametrize(("order", "sql"), [(("-at", "-id"), "at DESC, id DESC"), (("at", "id"), "at, id")])
def test_pages_contain_rows_without_a_time(
    connection: sqlite3.Connection, order: tuple[str, ...], sql: str, size: int
) -> None:
    connection.execute("UPDATE notes SET at = NULL WHERE id % 7 = 0")
    connection.execute("UPDATE notes SET at = '' WHERE id % 7 = 1")
    ids, _ = read_pages(connection, Listing(*order), "SELECT * FROM notes", size)
    assert ids == [row["id"] for row in connection.execute(f"SELECT id FROM notes ORDER BY {sql}")]


@pytest.mark.parametrize("cursor", [None, "", "x", "~", "2026-09-02 09:00:01", "2026~x", "2026~٣", "2026~-1"])
def test_an_invalid_cursor_returns_the_first_page(connection: sqlite3.Connection, cursor: str | None) -> None:
    page = Listing("-at", "-id").fetch_page(connection, "SELECT * FROM notes", {}, cursor, 5)
    assert page.rows[0]["at"] == "2026-09-02 09:00:03"


def test_escape_like(connection: sqlite3.Connection) -> None:
    pattern = f"%{escape_like('5%_a' + chr(92))}%"
    select = "SELECT ? LIKE ? ESCAPE '\\'"
    assert connection.execute(select, ("15%_a\\b", pattern)).fetchone()[0] == 1
    assert connection.execute(select, ("15xya\\b", pattern)).fetchone()[0] == 0


def test_a_full_last_page_has_no_next_cursor(connection: sqlite3.Connection) -> None:
    page = Listing("-at", "-id").fetch_page(connection, "SELECT * FROM notes", {}, None, 100)
    assert (len(page.rows), page.next) == (100, None)
