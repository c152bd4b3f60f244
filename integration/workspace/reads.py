"""Played voicemail and read message threads of dashboard users.

All users share the list of played voicemail; each user has separate read threads. Messages older than the
user's account count as read.
"""

from __future__ import annotations

import sqlite3

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS seen_threads (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    contact TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (person_id, contact)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS heard (
    voicemail_id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    person TEXT NOT NULL
) STRICT;
"""


def mark_played(tx: Transaction, voicemail_id: int, person: str) -> None:
    """Record that a voicemail message was played. The first user is kept."""
    tx.execute("INSERT OR IGNORE INTO heard VALUES (?, ?, ?)", (voicemail_id, clock.utc_text(), person))


def list_played_ids(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT voicemail_id FROM heard ORDER BY voicemail_id")]


def mark_thread_read(app_db: Database, person_id: int, contact: str, read_until: str) -> None:
    """Mark a thread as read up to `read_until` (UTC text).

    `contact`: digits. An earlier time than the stored one is ignored.
    """
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO seen_threads VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
            (person_id, contact, read_until),
        )
    )


def load_read_threads(connection: sqlite3.Connection, person_id: int) -> dict[str, str]:
    """Return the read position of each thread of a user.

    Keys are contacts, values are UTC text.
    """
    return dict(
        tuple(row)
        for row in connection.execute(
            "SELECT contact, at FROM seen_threads WHERE person_id = ?", (person_id,)
        )
    )
