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
    subjects = _hash_subjects(kind, account, address, device_id)
    window_seconds = LONG_WINDOW_SECONDS if kind in LONG_KINDS else WINDOW_SECONDS

    def work(tx: Transaction) -> int:
        now = clock.unix()
        # Attempts with a later time were stored before the clock was set back.
        tx.execute(
            "DELETE FROM attempts WHERE at <= ? OR at > ?", (now - LONG_WINDOW_SECONDS, now + WINDOW_SECONDS)
        )
        waits = []
        for column, subject in subjects.items():
            rows = tx.execute(
                f"SELECT at FROM attempts WHERE {column} = ? AND at > ? ORDER BY at DESC LIMIT ?",
                (subject, now - window_seconds, MAX_ATTEMPTS),
            ).fetchall()
            if len(rows) >= MAX_ATTEMPTS:
                waits.append(rows[-1][0] + window_seconds - now)
        if waits:
            raise TooManyAttempts(max(1, math.ceil(max(waits))))
        cursor = tx.execute(
            "INSERT INTO attempts (account, address, at) VALUES (?, ?, ?)",
            (subjects.get("account"), subjects["address"], now),
        )
        return int(cursor.lastrowid or 0)

    return app_db.write(work)


def discard_attempt(app_db: Database, attempt_id: int) -> None:
    """Do not count an attempt that succeeded or could not be verified.

    Earlier failures stay, or an attacker could reset an address's limit with their own account.
    """
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts WHERE id = ?", (attempt_id,)))


def _hash_subjects(
    kind: AttemptKind, account: str | None, address: str, device_id: int | None
) -> dict[str, bytes]:
    """Return the digests of what an attempt counts for, by column."""
    if device_id is not None:
        return {"address": tokens.digest(f"{kind}\0device\0{device_id}")}
    subjects = {"address": tokens.digest(f"{kind}\0{find_client_network(address)}")}
    if account is not None:
        subjects["account"] = tokens.digest(f"{kind}\0{account.strip().casefold()}")
    return subjects
