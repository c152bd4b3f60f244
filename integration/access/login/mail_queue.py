"""Queue of e-mails about logins: reset links and notices.

A row is added in the transaction of the change; `mailer` sends it. Without a mail server rows are dropped
after a day.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from integration.core import clock, tokens
from integration.core.retry_delays import LOGIN_EMAILS
from integration.sqlite.database import Database
from integration.sqlite.retry_queue import RetryQueue
from integration.sqlite.transaction import Transaction

MailKind = Literal[
    "reset",
    "password changed",
    "new device",
    "second factor added",
    "second factor removed",
    "recovery code used",
]

KEEP_SECONDS = 86400.0
"""Seconds after which an e-mail that could not be sent is dropped."""

TABLES = """
CREATE TABLE IF NOT EXISTS login_mails (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    person_id INTEGER REFERENCES people (id) ON DELETE CASCADE,
    account BLOB,
    details TEXT NOT NULL,
    created_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_at REAL NOT NULL,
    error TEXT
) STRICT;
"""
"""A reset has the digest of the entered address in `account`, a notice the id of its user."""

QUEUE = RetryQueue("login_mails", key=("id",), delays=LOGIN_EMAILS)


@dataclass(frozen=True, slots=True)
class QueuedMail:
    """E-mail to send.

    `created_at`: Unix seconds. `details`: sentence about device and address, or ''.
    """

    id: int
    kind: MailKind
    person_id: int | None
    account: bytes | None
    details: str
    created_at: float
    tries: int


def add_notice(tx: Transaction, person_id: int, kind: MailKind, details: str = "") -> None:
    """Queue a notice to a dashboard user."""
    _insert(tx, kind, person_id, None, details)


def request_reset(app_db: Database, email: str) -> None:
    """Queue an e-mail with a reset link.

    An unknown address takes the same time. The address is stored hashed, because users type passwords into
    the wrong field.
    """
    app_db.write(lambda tx: _insert(tx, "reset", None, hash_account(email), ""))


def hash_account(email: str) -> bytes:
    return tokens.digest(f"reset\0{email.strip().casefold()}")


def list_due(app_db: Database, limit: int) -> list[QueuedMail]:
    """Return e-mails that are due, oldest first."""
    with app_db.read() as connection:
        return [_from_row(row) for row in QUEUE.due(connection, clock.unix(), limit)]


def drop(app_db: Database, mail: QueuedMail) -> None:
    """Remove an e-mail that was sent, or cannot be sent."""
    app_db.write(lambda tx: tx.execute("DELETE FROM login_mails WHERE id = ?", (mail.id,)))


def mark_failed(app_db: Database, mail: QueuedMail, error: str) -> None:
    """Schedule the next attempt, or drop the e-mail after the last one."""

    def work(tx: Transaction) -> None:
        if not QUEUE.fail(tx, (mail.id,), mail.tries + 1, clock.unix(), error=error[:500]):
            tx.execute("DELETE FROM login_mails WHERE id = ?", (mail.id,))

    app_db.write(work)


def find_error(app_db: Database) -> str | None:
    """Return the error of a waiting e-mail, None if none failed."""
    with app_db.read() as connection:
        row = connection.execute("SELECT max(error) FROM login_mails").fetchone()
    return None if row[0] is None else str(row[0])


def _insert(
    tx: Transaction, kind: MailKind, person_id: int | None, account: bytes | None, details: str
) -> None:
    now = clock.unix()
    tx.execute("DELETE FROM login_mails WHERE created_at <= ?", (now - KEEP_SECONDS,))
    tx.execute(
        "INSERT INTO login_mails (kind, person_id, account, details, created_at, next_at) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (kind, person_id, account, details, now, now),
    )


def _from_row(row: sqlite3.Row) -> QueuedMail:
    return QueuedMail(*(row[name] for name in QueuedMail.__dataclass_fields__))
