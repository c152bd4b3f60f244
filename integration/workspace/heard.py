"""Voice messages that somebody here listened to: heard for everybody, whatever the platform still says."""

from __future__ import annotations

import sqlite3

from integration.core import clock
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS heard (
    voicemail_id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    person TEXT NOT NULL
) STRICT;
"""


def mark(tx: Transaction, voicemail_id: int, person: str) -> None:
    """The first to hear it is kept."""
    tx.execute("INSERT OR IGNORE INTO heard VALUES (?, ?, ?)", (voicemail_id, clock.stamp(), person))


def ids(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT voicemail_id FROM heard ORDER BY voicemail_id")]
