"""Legal holds: calls and numbers whose records must not be removed.

Each hold has a reason.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from integration.access import audit
from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS legal_holds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('number', 'call')),
    what TEXT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (kind, what)
) STRICT;
"""
"""The table has the holds in force; released ones are in the audit log."""

HoldKind = Literal["number", "call"]
MAX_REASON_LENGTH = 500
"""Largest number of characters of a reason."""


@dataclass(frozen=True, slots=True)
class LegalHold:
    """A legal hold.

    `what` is a number in E.164 or the id of a call; `at` is UTC text.
    """

    id: int
    kind: HoldKind
    what: str
    reason: str
    who: str
    at: str


def add(app_db: Database, kind: HoldKind, what: str, reason: str, who: str) -> LegalHold:
    """Set a legal hold.

    Raises DomainError without a reason, or if the hold already exists.
    """
    reason = " ".join(reason.split())
    if not 0 < len(reason) <= MAX_REASON_LENGTH:
        raise DomainError(f"Enter a reason of 1 to {MAX_REASON_LENGTH} characters for the legal hold.")
    values = (kind, what, reason, who, clock.utc_text())

    def work(tx: Transaction) -> LegalHold:
        cursor = tx.execute(
            "INSERT OR IGNORE INTO legal_holds (kind, what, reason, who, at) VALUES (?, ?, ?, ?, ?)", values
        )
        if not cursor.rowcount:
            raise DomainError(f"{what} is already under legal hold.")
        audit.record(tx, who, "legal hold set", f"{kind} {what}: {reason}")
        return LegalHold(int(cursor.lastrowid or 0), *values)

    return app_db.write(work)


def release(app_db: Database, kind: HoldKind, what: str, who: str) -> None:
    """Release a legal hold. Raises DomainError if there is none."""

    def work(tx: Transaction) -> None:
        if not tx.execute("DELETE FROM legal_holds WHERE kind = ? AND what = ?", (kind, what)).rowcount:
            raise DomainError(f"{what} is not under legal hold. `switchroom hold --list` lists the holds.")
        audit.record(tx, who, "legal hold released", f"{kind} {what}")

    app_db.write(work)


def list_all(connection: sqlite3.Connection) -> list[LegalHold]:
    """Return all holds, oldest first.

    Returns an empty list for a house.db of a version without holds.
    """
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'legal_holds'").fetchone() is None:
        return []
    columns = "id, kind, what, reason, who, at"
    return [LegalHold(*row) for row in connection.execute(f"SELECT {columns} FROM legal_holds ORDER BY id")]
