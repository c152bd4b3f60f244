"""Wallboards: a screen on the wall shows today's figures to whoever holds its address, and nothing else.

The token in the address has 192 random bits, is shown once and stored hashed, like a key's secret.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from integration.core import clock
from integration.core.refused import Refused
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

SEEN_EVERY = 60.0


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


def add(house: Database, name: str, *, level: int = 80, wait: int = 60, missed: int = 0) -> str:
    """Make one; returns its token, which can't be had again. Raises Refused."""
    name = name.strip()
    if not name or len(name) > 60 or not name.isprintable():
        raise Refused("a wallboard needs a name of 1 to 60 printable characters")
    if not (0 <= level <= 100 and 0 <= wait <= 86400 and 0 <= missed <= 9999):
        raise Refused("the targets are a percentage, seconds and a number of callers")
    token = secrets.token_urlsafe(24)
    house.write(
        lambda tx: tx.execute(
            "INSERT INTO wallboards (name, token_hash, level_target, wait_target, missed_target, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (name, _hash(token), level, wait, missed, clock.stamp()),
        )
    )
    return token


def find(house: Database, token: str) -> Wallboard | None:
    """The wallboard whose token this is; notes that it was read."""
    with house.read() as connection:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM wallboards WHERE token_hash = ?", (_hash(token),)
        ).fetchone()
    if row is None:
        return None
    board, now = Wallboard(*row), clock.unix()
    if board.seen_at is None or abs(now - board.seen_at) >= SEEN_EVERY:
        house.submit(lambda tx: tx.execute("UPDATE wallboards SET seen_at = ? WHERE id = ?", (now, board.id)))
    return board


def everything(house: Database) -> list[Wallboard]:
    with house.read() as connection:
        return [
            Wallboard(*row) for row in connection.execute(f"SELECT {_COLUMNS} FROM wallboards ORDER BY name")
        ]


def revoke(house: Database, number: int) -> str:
    """Its address leads nowhere from now on. Returns its name; raises Refused for an unknown one."""

    def work(tx: Transaction) -> str:
        row = tx.execute("SELECT name FROM wallboards WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise Refused("this wallboard is gone already")
        tx.execute("DELETE FROM wallboards WHERE id = ?", (number,))
        return str(row["name"])

    return house.write(work)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
