"""Login throttle: ten attempts per minute for each account and address.

It covers passwords, codes of the second factor, reset e-mails, keys, and requests that the facade passes
through without credentials. An account is counted over all addresses. Otherwise many addresses could guess a
password. A known device (`login/devices`) has a count of its own in place of both. Otherwise wrong passwords
from anywhere would lock out a user, and wrong passwords behind the same proxy all users.

Attempts are stored on disk, so a restart does not reset the limit. Unknown accounts are counted like existing
ones. Account names are stored hashed, because users type passwords into the wrong field.
"""

from __future__ import annotations

import math
import sqlite3
from typing import Literal

from integration.core import clock, tokens
from integration.core.errors import SwitchroomError
from integration.settings.values import find_client_network
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

AttemptKind = Literal["password", "code", "reset", "key", "setup", "public"]
"""`code`: second factor. `reset`: e-mail with a reset link.

`public`: requests without credentials that the facade passes through to the platform.
"""

MAX_ATTEMPTS = 10
"""Attempts within WINDOW_SECONDS, for each account and for each address."""
WINDOW_SECONDS = 60.0
"""Seconds for which an attempt is counted."""
LONG_WINDOW_SECONDS = 900.0
"""Seconds for which an attempt of LONG_KINDS is counted."""
LONG_KINDS: frozenset[AttemptKind] = frozenset({"code", "reset"})
"""A code has six digits: ten guesses a minute would find it within weeks. A reset sends an e-mail."""

TABLES = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account BLOB,
    address BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS attempts_account ON attempts (account, at); -- serves the count of an account
CREATE INDEX IF NOT EXISTS attempts_address ON attempts (address, at); -- serves the count of an address
"""


class TooManyAttempts(SwitchroomError):
    """The limit of attempts is reached.

    `retry_after`: seconds, at least 1.
    """

    status = 429

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many attempts. Try again in {retry_after} seconds.")
        self.retry_after = retry_after


def begin_attempt(
    app_db: Database, kind: AttemptKind, account: str | None, address: str, device_id: int | None = None
) -> int:
    """Count an attempt before its credentials are verified. Returns its id.

    Concurrent attempts cannot exceed the limit this way. `account` is None if only a secret was sent.
    `device_id`: a known device of this account. Raises TooManyAttempts; the caller must not verify the
    credentials then.
    """
    subjects = _Subjects(kind, account, address, device_id)
    return app_db.write(lambda tx: _record_attempt(tx, subjects))


def discard_attempt(app_db: Database, attempt_id: int) -> None:
    """Do not count an attempt that succeeded or could not be verified.

    Earlier failures stay, or an attacker could reset an address's limit with their own account.
    """
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts WHERE id = ?", (attempt_id,)))


class _Subjects:
    """Digests of the account and the address that an attempt counts for."""

    def __init__(
        self, kind: AttemptKind, account: str | None, address: str, device_id: int | None = None
    ) -> None:
        self.window_seconds = LONG_WINDOW_SECONDS if kind in LONG_KINDS else WINDOW_SECONDS
        if device_id is None:
            self.account, self.address = _hash_account(kind, account), _hash_address(kind, address)
        else:
            self.account, self.address = None, tokens.digest(f"{kind}\0device\0{device_id}")


def _record_attempt(tx: Transaction, subjects: _Subjects) -> int:
    now = clock.unix()
    # Attempts with a later time were stored before the clock was set back.
    tx.execute(
        "DELETE FROM attempts WHERE at <= ? OR at > ?", (now - LONG_WINDOW_SECONDS, now + WINDOW_SECONDS)
    )
    _check_limit(tx.connection, subjects)
    cursor = tx.execute(
        "INSERT INTO attempts (account, address, at) VALUES (?, ?, ?)",
        (subjects.account, subjects.address, now),
    )
    return int(cursor.lastrowid or 0)


def _check_limit(connection: sqlite3.Connection, subjects: _Subjects) -> None:
    now = clock.unix()
    waits = []
    for column, subject in (("account", subjects.account), ("address", subjects.address)):
        if subject is None:
            continue
        rows = connection.execute(
            f"SELECT at FROM attempts WHERE {column} = ? AND at > ? AND at <= ? ORDER BY at DESC LIMIT ?",
            (subject, now - subjects.window_seconds, now + WINDOW_SECONDS, MAX_ATTEMPTS),
        ).fetchall()
        if len(rows) >= MAX_ATTEMPTS:
            waits.append(rows[-1][0] + subjects.window_seconds - now)
    if waits:
        raise TooManyAttempts(max(1, math.ceil(max(waits))))


def _hash_account(kind: AttemptKind, account: str | None) -> bytes | None:
    return None if account is None else tokens.digest(f"{kind}\0{account.strip().casefold()}")


def _hash_address(kind: AttemptKind, address: str) -> bytes:
    return tokens.digest(f"{kind}\0{find_client_network(address)}")
