"""Wallboards: a screen on the wall shows today's figures to whoever holds its address, and nothing else.

The token in the address has 192 random bits, is shown once and stored hashed, like a key's secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS wallboards (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    level_target INTEGER NOT NULL,
    wait_target INTEGER NOT NULL,
    missed_target INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    seen_at REAL
) STRICT;
"""

SEEN_INTERVAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Wallboard:
    """Targets: service level in per cent (at least), longest wait in seconds and open call-backs (at most).
    `seen_at`: Unix seconds of its last reading, None for never."""

    id: int
    name: str
    level_target: int
    wait_target: int
    missed_target: int
    created_at: str
    seen_at: float | None


_COLUMNS = "id, name, level_target, wait_target, missed_target, created_at, seen_at"


def add(
    app_db: Database, name: str, *, level_target: int = 80, wait_target: int = 60, missed_target: int = 0
) -> str:
    """Make one; returns its token, which can't be had again. Raises DomainError."""
    name = name.strip()
    if not name or len(name) > 60 or not name.isprintable():
        raise DomainError("a wallboard needs a name of 1 to 60 printable characters")
    if not (0 <= level_target <= 100 and 0 <= wait_target <= 86400 and 0 <= missed_target <= 9999):
        raise DomainError("the targets are a percentage, seconds and a number of callers")
    token = tokens.new(24)
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO wallboards (name, token_hash, level_target, wait_target, missed_target, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (name, tokens.digest(token), level_target, wait_target, missed_target, clock.utc_text()),
        )
    )
    return token


def find(app_db: Database, token: str) -> Wallboard | None:
    """The wallboard whose token this is; notes that it was read."""
    with app_db.read() as connection:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM wallboards WHERE token_hash = ?", (tokens.digest(token),)
        ).fetchone()
    if row is None:
        return None
    board, now = Wallboard(*row), clock.unix()
    if board.seen_at is None or abs(now - board.seen_at) >= SEEN_INTERVAL_SECONDS:
        app_db.submit(
            lambda tx: tx.execute("UPDATE wallboards SET seen_at = ? WHERE id = ?", (now, board.id))
        )
    return board


def list_all(app_db: Database) -> list[Wallboard]:
    with app_db.read() as connection:
        return [
            Wallboard(*row) for row in connection.execute(f"SELECT {_COLUMNS} FROM wallboards ORDER BY name")
        ]


def revoke(app_db: Database, wallboard_id: int) -> str:
    """Its address leads nowhere from now on. Returns its name; raises DomainError for an unknown one."""

    def work(tx: Transaction) -> str:
        row = tx.execute("SELECT name FROM wallboards WHERE id = ?", (wallboard_id,)).fetchone()
        if row is None:
            raise DomainError("this wallboard is gone already")
        tx.execute("DELETE FROM wallboards WHERE id = ?", (wallboard_id,))
        return str(row["name"])

    return app_db.write(work)
