"""Parts of pages that a dashboard user has dismissed."""

from __future__ import annotations

import sqlite3

from integration.sqlite.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS dismissals (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    PRIMARY KEY (person_id, part)
) STRICT, WITHOUT ROWID;
"""


def dismiss(app_db: Database, person_id: int, part: str) -> None:
    app_db.write(lambda tx: tx.execute("INSERT OR IGNORE INTO dismissals VALUES (?, ?)", (person_id, part)))


def is_dismissed(connection: sqlite3.Connection, person_id: int, part: str) -> bool:
    """Return whether the user has dismissed this part."""
    row = connection.execute(
        "SELECT 1 FROM dismissals WHERE person_id = ? AND part = ?", (person_id, part)
    ).fetchone()
    return row is not None
