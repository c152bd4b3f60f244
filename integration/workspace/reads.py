"""How far each person has read each thread of messages. What came before somebody's account was made counts
as read."""

from __future__ import annotations

import sqlite3

from integration.sqlite.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS seen_threads (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    contact TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, contact)
) STRICT, WITHOUT ROWID;
"""


def mark(house: Database, person_id: int, contact: str, at: str) -> None:
    """The person has read the thread with `contact` (digits) up to `at` (UTC text); never back."""
    house.write(
        lambda tx: tx.execute(
            "INSERT INTO seen_threads VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
            (person_id, contact, at),
        )
    )


def marks(connection: sqlite3.Connection, person_id: int) -> dict[str, str]:
    """Contact → read up to, UTC text."""
    return dict(
        tuple(row)
        for row in connection.execute(
            "SELECT contact, at FROM seen_threads WHERE person_id = ?", (person_id,)
        )
    )
