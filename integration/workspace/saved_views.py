"""Saved views: a name for what a page's address asks for, a person's own or everybody's, pinned or not; and
which columns a person hides."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS views (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    page TEXT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    shared INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (person_id, page, name)
) STRICT;
CREATE TABLE IF NOT EXISTS hidden_columns (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    page TEXT NOT NULL,
    columns TEXT NOT NULL,
    PRIMARY KEY (person_id, page)
) STRICT, WITHOUT ROWID;
"""

MAX_NAME_LENGTH = 60
MAX_VIEWS = 50
"""Views of one person on one page."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """`query` is the address's part behind '?'. `person_id` made it; others see it if it is `shared`."""

    id: int
    person_id: int
    name: str
    query: str
    shared: bool
    pinned: bool


def list_visible(connection: sqlite3.Connection, person_id: int, page: str) -> list[SavedView]:
    """A person's own views of a page and those others share, pinned first."""
    rows = connection.execute(
        "SELECT id, person_id, name, query, shared, pinned FROM views"
        " WHERE page = ? AND (person_id = ? OR shared) ORDER BY pinned DESC, name COLLATE NOCASE, id",
        (page, person_id),
    )
    return [SavedView(row[0], row[1], row[2], row[3], bool(row[4]), bool(row[5])) for row in rows]


def save(
    app_db: Database, person_id: int, page: str, name: str, query: str, *, shared: bool, pinned: bool
) -> None:
    """Keep a view; one of the same name is replaced. Raises ValueError for no name, or too many."""
    name = " ".join(name.split())[:MAX_NAME_LENGTH]
    if not name:
        raise ValueError("A view needs a name.")

    def work(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO views (person_id, page, name, query, shared, pinned, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (person_id, page, name) DO UPDATE SET query = excluded.query,"
            " shared = excluded.shared, pinned = excluded.pinned, at = excluded.at",
            (person_id, page, name, query, int(shared), int(pinned), clock.utc_text()),
        )
        count = tx.execute(
            "SELECT count(*) FROM views WHERE person_id = ? AND page = ?", (person_id, page)
        ).fetchone()[0]
        if count > MAX_VIEWS:
            raise ValueError(f"There are {MAX_VIEWS} views already. Remove one first.")

    app_db.write(work)


def remove(app_db: Database, person_id: int, view_id: int) -> bool:
    """Take away a view of one's own; False where there is none."""
    return app_db.write(
        lambda tx: (
            tx.execute("DELETE FROM views WHERE id = ? AND person_id = ?", (view_id, person_id)).rowcount > 0
        )
    )


def load_hidden_columns(connection: sqlite3.Connection, person_id: int, page: str) -> frozenset[str]:
    """Columns of a page that a person hides."""
    row = connection.execute(
        "SELECT columns FROM hidden_columns WHERE person_id = ? AND page = ?", (person_id, page)
    ).fetchone()
    return frozenset(row["columns"].split()) if row else frozenset()


def save_hidden_columns(app_db: Database, person_id: int, page: str, columns: frozenset[str]) -> None:
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO hidden_columns VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET columns = excluded.columns",
            (person_id, page, " ".join(sorted(columns))),
        )
    )
