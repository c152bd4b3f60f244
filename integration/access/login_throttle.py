"""At most ten guesses of a password or key a minute, for each account and for each address; as many requests
of strangers that the facade passes on.

Kept on disk, so that a restart doesn't begin a new minute. Accounts that don't exist are counted like
those that do. What was typed is stored hashed: people type passwords into the wrong field.
"""

from __future__ import annotations

import ipaddress
import math
import sqlite3
from dataclasses import dataclass
from typing import Literal

from integration.core import clock, tokens
from integration.core.errors import SwitchroomError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

AttemptKind = Literal["password", "key", "setup", "public"]
"""`public`: what is asked of the platform for strangers."""

MAX_ATTEMPTS = 10
WINDOW_SECONDS = 60.0
"""Seconds."""

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
    """Answered 429. `retry_after` is seconds, at least 1."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many attempts; try again in {retry_after} seconds")
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Attempt:
    """A guess that was counted before it was checked."""

    id: int


def begin_attempt(app_db: Database, kind: AttemptKind, account: str | None, address: str) -> Attempt:
    """Count a guess before checking it, so that guesses side by side can't slip through together.

    `account` is None where the secret alone was given. Raises TooManyAttempts: then don't even look.
    """
    return app_db.write(lambda tx: _record_attempt(tx, kind, account, address))


def discard_attempt(app_db: Database, attempt: Attempt) -> None:
    """It was no guess: take it off the count. Earlier failures stay, or one's own account would wash clean
    the address from which others' are tried."""
    app_db.write(lambda tx: tx.execute("DELETE FROM attempts WHERE id = ?", (attempt.id,)))


def check_limit(app_db: Database, kind: AttemptKind, account: str | None, address: str) -> None:
    """Raise TooManyAttempts if a guess would be refused now. Costs no write: for what is checked with every
    request and right nearly always, with `record_failure` after a wrong one."""
    with app_db.read() as connection:
        _check_limit(connection, kind, account, address)


def record_failure(app_db: Database, kind: AttemptKind, account: str | None, address: str) -> None:
    """Count a wrong guess. Raises TooManyAttempts if it was one too many already."""
    app_db.write(lambda tx: _record_attempt(tx, kind, account, address))


def _record_attempt(tx: Transaction, kind: AttemptKind, account: str | None, address: str) -> Attempt:
    now = clock.unix()
    # Those of the future are of a clock that was set back.
    tx.execute("DELETE FROM attempts WHERE at <= ? OR at > ?", (now - WINDOW_SECONDS, now + WINDOW_SECONDS))
    _check_limit(tx.connection, kind, account, address)
    cursor = tx.execute(
        "INSERT INTO attempts (account, address, at) VALUES (?, ?, ?)",
        (_hash_account(kind, account), _hash_address(kind, address), now),
    )
    return Attempt(int(cursor.lastrowid or 0))


def _check_limit(
    connection: sqlite3.Connection, kind: AttemptKind, account: str | None, address: str
) -> None:
    now = clock.unix()
    waits = []
    for sql, subject in (
        (
            "SELECT at FROM attempts WHERE account = ? AND at > ? AND at <= ? ORDER BY at DESC LIMIT ?",
            _hash_account(kind, account),
        ),
        (
            "SELECT at FROM attempts WHERE address = ? AND at > ? AND at <= ? ORDER BY at DESC LIMIT ?",
            _hash_address(kind, address),
        ),
    ):
        if subject is None:
            continue
        rows = connection.execute(
            sql, (subject, now - WINDOW_SECONDS, now + WINDOW_SECONDS, MAX_ATTEMPTS)
        ).fetchall()
        if len(rows) >= MAX_ATTEMPTS:
            waits.append(rows[-1][0] + WINDOW_SECONDS - now)
    if waits:
        raise TooManyAttempts(max(1, math.ceil(max(waits))))


def _hash_account(kind: AttemptKind, account: str | None) -> bytes | None:
    return None if account is None else tokens.digest(f"{kind}\0{account.strip().casefold()}")


def _hash_address(kind: AttemptKind, address: str) -> bytes:
    """One household has one IPv6 /64; an IPv4 address may come wrapped in an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return tokens.digest(f"{kind}\0{address}")
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped_ipv4 = parsed.ipv4_mapped
        normalized = (
            str(mapped_ipv4) if mapped_ipv4 else str(ipaddress.ip_network((int(parsed), 64), strict=False))
        )
    else:
        normalized = str(parsed)
    return tokens.digest(f"{kind}\0{normalized}")
