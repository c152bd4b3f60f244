"""Reminders of call-backs: one time for each caller and dashboard user."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.sqlite.database import Database
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem

TABLES = """
CREATE TABLE IF NOT EXISTS callback_reminders (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    party TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, party)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Reminder:
    """Reminder of an open item. `at`: UTC text."""

    at: str
    item: CallbackItem


def save(app_db: Database, person_id: int, party: str, at: str) -> None:
    """Set the reminder of a caller.

    It replaces an earlier one of the same user.
    """
    app_db.write(
        lambda tx: tx.execute(
            "INSERT OR REPLACE INTO callback_reminders VALUES (?, ?, ?)", (person_id, party, at)
        )
    )


def load_by_party(connection: sqlite3.Connection, person_id: int) -> dict[str, str]:
    """Return the reminder times of a user, by caller."""
    rows = connection.execute("SELECT party, at FROM callback_reminders WHERE person_id = ?", (person_id,))
    return {row[0]: row[1] for row in rows}


def list_due(connection: sqlite3.Connection, person_id: int, since: str, until: str) -> list[Reminder]:
    """Return the reminders of open items from `since` to `until` (UTC text)."""
    return [
        Reminder(at, item)
        for party, at in load_by_party(connection, person_id).items()
        if since <= at <= until and (item := callbacks.find_open_item(connection, party)) is not None
    ]
