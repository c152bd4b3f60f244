"""Cache of verified platform credentials, hashed, in table `remembered`.

A row has the user, the time of the last confirmation by the platform and the time of the last use. Callers
decide how recent these times must be (`authenticator.py`).
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
CREATE INDEX IF NOT EXISTS remembered_used ON remembered (used_at); -- serves the removal of unused rows
"""

EXPIRY_SECONDS = 30 * 86400.0
"""Seconds without use after which a row is deleted.

The row of an ended token must outlive the token on the platform.
"""


@dataclass(frozen=True, slots=True)
class CachedCredential:
    """Platform credential that the platform accepted.

    `user_part`: e-mail address of the user, accepted in Basic like `user_id`. `administrator`: None until
    `/me` was requested. Times are Unix seconds. `ended_at`: time of a logout, revocation or expiry, else
    None.
    """

    source: Source
    user_id: str | None
    user_part: str | None
    administrator: bool | None
    checked_at: float
    used_at: float
    ended_at: float | None

    def matches_user(self, user_part: str | None) -> bool:
        """Return whether `user_part` is the user of this credential.

        `user_part`: user of HTTP Basic. None (no user was sent) matches every credential.
        """
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
    """Store a credential that the platform just accepted; return its row.

    A stored row keeps its `source`, and its values where the arguments are None.
    """
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
    """Store the time of use, without waiting for the commit."""
    digest, now = tokens.digest(secret), clock.unix()
    app_db.submit(
        lambda tx: tx.execute("UPDATE remembered SET used_at = ? WHERE secret_hash = ?", (now, digest))
    )


def mark_ended(app_db: Database, secret: str) -> None:
    """Mark a credential as ended, even if the platform still accepts it.

    A credential that is not cached is stored as ended.
    """
    digest, now = tokens.digest(secret), clock.unix()
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO remembered (secret_hash, source, checked_at, used_at, ended_at)"
            " VALUES (?, 'shown', ?, ?, ?)"
            " ON CONFLICT (secret_hash) DO UPDATE SET ended_at = excluded.ended_at",
            (digest, now, now, now),
        )
    )


def expire_check(app_db: Database, secret: str) -> None:
    """Mark the last check of a cached credential as outdated."""
    digest = tokens.digest(secret)
    app_db.write(
        lambda tx: tx.execute("UPDATE remembered SET checked_at = 0 WHERE secret_hash = ?", (digest,))
    )


def delete(app_db: Database, secret: str) -> None:
    """Delete a credential that the platform refused.

    Its next use is verified with the platform.
    """
    digest = tokens.digest(secret)
    app_db.write(lambda tx: tx.execute("DELETE FROM remembered WHERE secret_hash = ?", (digest,)))


def _from_row(row: sqlite3.Row) -> CachedCredential:
    values = {name: row[name] for name in CachedCredential.__dataclass_fields__}
    if values["administrator"] is not None:
        values["administrator"] = bool(values["administrator"])
    return CachedCredential(**values)
