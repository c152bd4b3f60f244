"""Preferred phones for click-to-call.

The preferred phone rings for a dashboard user without a platform user.
"""

from __future__ import annotations

import sqlite3

from integration.sqlite.database import Database

TABLES = """
CREATE TABLE IF NOT EXISTS phones (
    person_id INTEGER PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    platform_user_id INTEGER NOT NULL
) STRICT;
"""


def save_preferred(app_db: Database, person_id: int, platform_user_id: int) -> None:
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO phones VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET platform_user_id = excluded.platform_user_id",
            (person_id, platform_user_id),
        )
    )


def find_preferred(connection: sqlite3.Connection, person_id: int) -> int | None:
    """Return the platform user whose phone the dashboard user selected last."""
    row = connection.execute(
        "SELECT platform_user_id FROM phones WHERE person_id = ?", (person_id,)
    ).fetchone()
    return None if row is None else int(row[0])
