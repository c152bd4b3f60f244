"""Who did what, about what, with which result. Never holds a secret."""

from __future__ import annotations

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
"""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`who` is a person's address, 'key NAME', 'command' or ''. `at` is UTC text."""

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
    """Write an entry: in the transaction of the deed, or, given the database, in one of its own that is
    durable on return."""
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
    """The newest entries first; `before` is the id of the last one of the page before."""
    with app_db.read() as connection:
        rows = connection.execute(
            "SELECT id, at, who, what, about, result, address FROM audit "
            "WHERE id < ? ORDER BY id DESC LIMIT ?",
            (2**62 if before is None else before, limit),
        ).fetchall()
    return [AuditEntry(*row) for row in rows]


def delete_before(tx: Transaction, before: str) -> int:
    """Remove what is older than `before` (UTC text); returns how many entries."""
    return tx.execute("DELETE FROM audit WHERE at < ?", (before,)).rowcount
