"""Platform credentials that callers of the facade showed and the platform accepted. Hashed.

A row says whose they are, when the platform last confirmed them and when they were last used; whether that is
recent enough is the caller's rule.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from integration.core import clock, tokens
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

Source = Literal["login", "shown"]

TABLES = """
CREATE TABLE IF NOT EXISTS remembered (
    secret_hash BLOB PRIMARY KEY,
    source TEXT NOT NULL CHECK (source IN ('login', 'shown')),
    user_id TEXT,
    user_part TEXT,
    administrator INTEGER,
    checked_at REAL NOT NULL,
    used_at REAL NOT NULL,
    ended_at REAL
) STRICT;
CREATE INDEX IF NOT EXISTS remembered_used ON remembered (used_at); -- serves forgetting what is long unused
"""

EXPIRY_SECONDS = 30 * 86400.0
"""Seconds. An ended token must stay known as ended for longer than the platform may keep it alive."""


@dataclass(frozen=True, slots=True)
class CachedCredential:
    """`user_part` is what Basic named them by beside `user_id` (an e-mail address). `administrator` is None
    until /me told. Times are Unix seconds; `ended_at` is set by a logout, a revocation or a refusal."""

    source: Source
    user_id: str | None
    user_part: str | None
    administrator: bool | None
    checked_at: float
    used_at: float
    ended_at: float | None

    def matches_user(self, user_part: str | None) -> bool:
        """Whether Basic's user part names the one these credentials belong to."""
        if user_part is None or user_part == self.user_id:
            return True
        return self.user_part is not None and user_part.casefold() == self.user_part.casefold()


def find(app_db: Database, secret: str) -> CachedCredential | None:
    digest = tokens.digest(secret)
    with app_db.read() as connection:
        row = connection.execute("SELECT * FROM remembered WHERE secret_hash = ?", (digest,)).fetchone()
    if row is None or not tokens.matches(secret, row["secret_hash"]):
        return None
    return _from_row(row)


def store(
    app_db: Database,
    secret: str,
    *,
    source: Source,
    user_id: str | None,
    user_part: str | None,
    administrator: bool | None,
) -> CachedCredential:
    """Note that the platform accepted these just now. A token of a login stays one whoever shows it."""
    now = clock.unix()

    def work(tx: Transaction) -> CachedCredential:
        tx.execute("DELETE FROM remembered WHERE used_at < ?", (now - EXPIRY_SECONDS,))
        tx.execute(
            "INSERT INTO remembered"
            " (secret_hash, source, user_id, user_part, administrator, checked_at, used_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (secret_hash) DO UPDATE SET"
            " user_id = coalesce(excluded.user_id, user_id),"
            " user_part = coalesce(excluded.user_part, user_part),"
            " administrator = coalesce(excluded.administrator, administrator),"
            " checked_at = excluded.checked_at, used_at = excluded.used_at",
            (tokens.digest(secret), source, user_id, user_part, administrator, now, now),
        )
        return _from_row(
            tx.execute("SELECT * FROM remembered WHERE secret_hash = ?", (tokens.digest(secret),)).fetchone()
        )

    return app_db.write(work)


def record_use(app_db: Database, secret: str) -> None:
    """Note the use, without waiting for it to be durable."""
    digest, now = tokens.digest(secret), clock.unix()
    app_db.submit(
        lambda tx: tx.execute("UPDATE remembered SET used_at = ? WHERE secret_hash = ?", (now, digest))
    )


def mark_ended(app_db: Database, secret: str) -> None:
    """They are good no longer, whatever the platform may still say. Unknown ones are remembered as ended."""
    digest, now = tokens.digest(secret), clock.unix()
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO remembered (secret_hash, source, checked_at, used_at, ended_at)"
            " VALUES (?, 'shown', ?, ?, ?)"
            " ON CONFLICT (secret_hash) DO UPDATE SET ended_at = excluded.ended_at",
            (digest, now, now, now),
        )
    )


def delete(app_db: Database, secret: str) -> None:
    """The platform refuses them now; should they be shown again, it is asked again."""
    digest = tokens.digest(secret)
    app_db.write(lambda tx: tx.execute("DELETE FROM remembered WHERE secret_hash = ?", (digest,)))


def _from_row(row: sqlite3.Row) -> CachedCredential:
    administrator = row["administrator"]
    return CachedCredential(
        source=row["source"],
        user_id=row["user_id"],
        user_part=row["user_part"],
        administrator=None if administrator is None else bool(administrator),
        checked_at=row["checked_at"],
        used_at=row["used_at"],
        ended_at=row["ended_at"],
    )
