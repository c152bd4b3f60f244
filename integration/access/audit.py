"""Audit log: actions of users and clients, with results. Never contains secrets."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core import clock
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL,
    result TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS audit_at ON audit (at); -- serves retention and the entries of the current hour
"""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log.

    `who`: e-mail address of a dashboard user, 'key NAME', 'command line' or ''. `what`: the action. `about`:
    its subject. `at`: UTC text. `address`: IP address of the client, '' if there is none.
    """

    id: int
    at: str
    who: str
    what: str
    about: str
    result: str
    address: str


def record(
    target: Transaction | Database,
    who: str,
    action: str,
    subject: str = "",
    result: str = "done",
    *,
    address: str = "",
) -> None:
    """Write an entry of the audit log.

    With a transaction the entry is committed together with the action. With a database the entry is durable
    on return.
    """
    values = (clock.utc_text(), who, action, subject, result, address)

    def work(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO audit (at, who, what, about, result, address) VALUES (?, ?, ?, ?, ?, ?)", values
        )

    if isinstance(target, Database):
        target.write(work)
    else:
        work(target)


def list_newest(app_db: Database, limit: int = 100, before: int | None = None) -> list[AuditEntry]:
    """Return up to `limit` entries, newest first.

    `before`: id of the last entry of the previous page; None for the first page.
    """
    with app_db.read() as connection:
        rows = connection.execute(
            "SELECT id, at, who, what, about, result, address FROM audit "
            "WHERE id < ? ORDER BY id DESC LIMIT ?",
            (2**62 if before is None else before, limit),
        ).fetchall()
    return [AuditEntry(*row) for row in rows]


def has_entry_since(connection: sqlite3.Connection, since: str, who: str, action: str, subject: str) -> bool:
    """Return whether an equal entry exists.

    `since`: UTC text; older entries do not count.
    """
    row = connection.execute(
        "SELECT 1 FROM audit WHERE at >= ? AND who = ? AND what = ? AND about = ? LIMIT 1",
        (since, who, action, subject),
    ).fetchone()
    return row is not None


def delete_before(tx: Transaction, before: str) -> int:
    """Delete entries older than `before` (UTC text) and return their number."""
    return tx.execute("DELETE FROM audit WHERE at < ?", (before,)).rowcount
