"""Name, start page and seen notifications of each dashboard user."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, read_columns

TABLES = """
CREATE TABLE IF NOT EXISTS person_settings (
    person_id INTEGER PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    start_page TEXT,
    looked_at TEXT,
    name TEXT
) STRICT;
"""


MAX_NAME_LENGTH = 60
"""Characters of a name."""


def add_name_column(schema: Schema) -> None:
    """Migration: add the column of names."""
    if "name" not in read_columns(schema).get("person_settings", {"name"}):
        schema.execute("ALTER TABLE person_settings ADD COLUMN name TEXT")


@dataclass(frozen=True, slots=True)
class PersonSettings:
    """Settings of a dashboard user.

    `name`: entered name, None without one. `start_page`: path of the page after a login, None for Live.
    `looked_at`: UTC text, None if the user never looked at the notifications.
    """

    start_page: str | None = None
    looked_at: str | None = None
    name: str | None = None


def load(connection: sqlite3.Connection, person_id: int) -> PersonSettings:
    row = connection.execute(
        "SELECT start_page, looked_at, name FROM person_settings WHERE person_id = ?", (person_id,)
    ).fetchone()
    return PersonSettings(*row) if row else PersonSettings()


def save_start_page(app_db: Database, person_id: int, path: str) -> None:
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO person_settings (person_id, start_page) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET start_page = excluded.start_page",
            (person_id, path),
        )
    )


def record_look(app_db: Database, person_id: int, until: str) -> None:
    """Record that the user has seen all notifications up to `until`.

    `until`: UTC text. An invalid or future time counts as now.
    """
    now = clock.utc_text()
    looked_at = min(until, now) if clock.parse_utc(until) else now
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO person_settings (person_id, looked_at) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET looked_at = excluded.looked_at",
            (person_id, looked_at),
        )
    )


def load_names(connection: sqlite3.Connection) -> dict[int, str]:
    """Return the entered names by dashboard user."""
    rows = connection.execute("SELECT person_id, name FROM person_settings WHERE name IS NOT NULL")
    return {row[0]: row[1] for row in rows}


def save_name(app_db: Database, person_id: int, name: str) -> None:
    """Store the name of a dashboard user, at most MAX_NAME_LENGTH characters; '' removes it."""
    stored_name = " ".join(name.split())[:MAX_NAME_LENGTH] or None
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO person_settings (person_id, name) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET name = excluded.name",
            (person_id, stored_name),
        )
    )
