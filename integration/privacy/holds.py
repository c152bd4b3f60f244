"""Legal holds: calls and numbers whose records nothing may remove, and why."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from integration.access import audit
from integration.core import clock
from integration.core.refused import Refused
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
"""Those in force; of the others tells the audit."""

Kind = Literal["number", "call"]
LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Hold:
    """`what` is an E.164 number or a call's id; `at` UTC text."""

    id: int
    kind: Kind
    what: str
    reason: str
    who: str
    at: str


def add(house: Database, kind: Kind, what: str, reason: str, who: str) -> Hold:
    """Raises Refused without a reason, or where there is a hold on it."""
    reason = " ".join(reason.split())
    if not 0 < len(reason) <= LONGEST_REASON:
        raise Refused(f"a legal hold needs a reason of up to {LONGEST_REASON} characters")
    values = (kind, what, reason, who, clock.stamp())

    def work(tx: Transaction) -> Hold:
        cursor = tx.execute(
            "INSERT OR IGNORE INTO legal_holds (kind, what, reason, who, at) VALUES (?, ?, ?, ?, ?)", values
        )
        if not cursor.rowcount:
            raise Refused(f"{what} is under legal hold already")
        audit.record(tx, who, "legal hold set", f"{kind} {what}: {reason}")
        return Hold(int(cursor.lastrowid or 0), *values)

    return house.write(work)


def release(house: Database, kind: Kind, what: str, who: str) -> None:
    """Raises Refused where there is none on it."""

    def work(tx: Transaction) -> None:
        if not tx.execute("DELETE FROM legal_holds WHERE kind = ? AND what = ?", (kind, what)).rowcount:
            raise Refused(f"{what} is not under legal hold")
        audit.record(tx, who, "legal hold released", f"{kind} {what}")

    house.write(work)


def all_of(connection: sqlite3.Connection) -> list[Hold]:
    """The oldest first; none in a house.db from before there were holds."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'legal_holds'").fetchone() is None:
        return []
    columns = "id, kind, what, reason, who, at"
    return [Hold(*row) for row in connection.execute(f"SELECT {columns} FROM legal_holds ORDER BY id")]
