"""Second factor: time-based one-time codes (RFC 6238) and recovery codes.

The secret is stored in house.db like the secrets of schedules and alert rules. A code is valid once, in its
step of 30 seconds and one step before and after. Recovery codes are stored hashed; each is valid once.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import sqlite3
from typing import Literal

import pyotp

from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

STEP_SECONDS = 30
"""Seconds for which an authenticator app shows a code."""
TOLERATED_STEPS = 1
"""Steps that the clock of the user's device may be ahead or behind."""
CODE_LENGTH = 6
RECOVERY_CODES = 10
"""Number of recovery codes of a user."""
RECOVERY_BYTES = 10
"""Random bytes of a recovery code, which is 16 characters long. A search of all hashes is not feasible."""
ISSUER = "Switchroom"
"""Name of the product in authenticator apps."""

TABLES = """
CREATE TABLE IF NOT EXISTS second_factors (
    person_id INTEGER PRIMARY KEY REFERENCES people (id) ON DELETE CASCADE,
    secret TEXT NOT NULL,
    enabled_at REAL,
    used_step INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS recovery_codes (
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    code_hash BLOB NOT NULL,
    PRIMARY KEY (person_id, code_hash)
) STRICT, WITHOUT ROWID;
"""
"""`enabled_at` is null until the user has entered a first code. `used_step` is the step of the last code."""

CodeKind = Literal["code", "recovery code"]


def start_setup(app_db: Database, person_id: int) -> None:
    """Store a new secret, which is not required until `enable`.

    Raises DomainError if the user has a second factor already.
    """
    secret = pyotp.random_base32()

    def work(tx: Transaction) -> None:
        if has_factor(tx.connection, person_id):
            raise DomainError("You have a second factor already. Remove it before you set up another one.")
        tx.execute("INSERT OR REPLACE INTO second_factors VALUES (?, ?, NULL, 0)", (person_id, secret))

    app_db.write(work)


def load_setup_secret(app_db: Database, person_id: int) -> str | None:
    """Return the secret of an unfinished set-up, else None."""
    with app_db.read() as connection:
        row = connection.execute(
            "SELECT secret FROM second_factors WHERE person_id = ? AND enabled_at IS NULL", (person_id,)
        ).fetchone()
    return None if row is None else str(row["secret"])


def make_uri(secret: str, email: str) -> str:
    """Return the URI that authenticator apps read from the QR code."""
    return pyotp.TOTP(secret, name=email, issuer=ISSUER).provisioning_uri()


def enable(app_db: Database, person_id: int, code: str) -> list[str] | None:
    """Finish the set-up with a first code.

    Returns new recovery codes, None for a wrong code.
    """

    def work(tx: Transaction) -> list[str] | None:
        if has_factor(tx.connection, person_id) or not _use_code(tx, person_id, code):
            return None
        tx.execute("UPDATE second_factors SET enabled_at = ? WHERE person_id = ?", (clock.unix(), person_id))
        return _replace_recovery_codes(tx, person_id)

    return app_db.write(work)


def verify(app_db: Database, person_id: int, code: str) -> CodeKind | None:
    """Use a code or a recovery code of an enabled second factor.

    Returns its kind, None if wrong or used.
    """

    def work(tx: Transaction) -> CodeKind | None:
        if not has_factor(tx.connection, person_id):
            return None
        if _use_code(tx, person_id, code):
            return "code"
        deleted = tx.execute(
            "DELETE FROM recovery_codes WHERE person_id = ? AND code_hash = ?",
            (person_id, _hash_recovery_code(code)),
        )
        return "recovery code" if deleted.rowcount else None

    return app_db.write(work)


def replace_recovery_codes(app_db: Database, person_id: int) -> list[str]:
    """Return new recovery codes; the earlier ones become invalid.

    Raises DomainError without a factor.
    """

    def work(tx: Transaction) -> list[str]:
        if not has_factor(tx.connection, person_id):
            raise DomainError("You have no second factor. Set it up first.")
        return _replace_recovery_codes(tx, person_id)

    return app_db.write(work)


def remove(tx: Transaction, person_id: int) -> bool:
    """Remove the second factor and its recovery codes.

    Returns False if there was none.
    """
    tx.execute("DELETE FROM recovery_codes WHERE person_id = ?", (person_id,))
    deleted = tx.execute(
        "DELETE FROM second_factors WHERE person_id = ? AND enabled_at IS NOT NULL", (person_id,)
    )
    return bool(deleted.rowcount)


def has_factor(connection: sqlite3.Connection, person_id: int) -> bool:
    """Return whether the user has finished the set-up of a second factor."""
    return (
        connection.execute(
            "SELECT 1 FROM second_factors WHERE person_id = ? AND enabled_at IS NOT NULL", (person_id,)
        ).fetchone()
        is not None
    )


def count_recovery_codes(connection: sqlite3.Connection, person_id: int) -> int:
    """Return the number of unused recovery codes."""
    row = connection.execute(
        "SELECT count(*) FROM recovery_codes WHERE person_id = ?", (person_id,)
    ).fetchone()
    return int(row[0])


def is_code(text: str) -> bool:
    """Return whether a text has the form of a code."""
    digits = _strip(text)
    return len(digits) == CODE_LENGTH and digits.isascii() and digits.isdecimal()


def _use_code(tx: Transaction, person_id: int, text: str) -> bool:
    """Accept a code if its step is later than the last one."""
    row = tx.execute(
        "SELECT secret, used_step FROM second_factors WHERE person_id = ?", (person_id,)
    ).fetchone()
    if row is None or not is_code(text):
        return False
    generator, current_step = (
        pyotp.TOTP(row["secret"], interval=STEP_SECONDS),
        int(clock.unix() // STEP_SECONDS),
    )
    for step in range(current_step - TOLERATED_STEPS, current_step + TOLERATED_STEPS + 1):
        if hmac.compare_digest(generator.generate_otp(step), _strip(text)) and step > row["used_step"]:
            tx.execute("UPDATE second_factors SET used_step = ? WHERE person_id = ?", (step, person_id))
            return True
    return False


def _replace_recovery_codes(tx: Transaction, person_id: int) -> list[str]:
    texts = [
        base64.b32encode(secrets.token_bytes(RECOVERY_BYTES)).decode().lower() for _ in range(RECOVERY_CODES)
    ]
    tx.execute("DELETE FROM recovery_codes WHERE person_id = ?", (person_id,))
    tx.executemany(
        "INSERT INTO recovery_codes VALUES (?, ?)",
        [(person_id, _hash_recovery_code(text)) for text in texts],
    )
    return ["-".join(text[start : start + 4] for start in range(0, len(text), 4)) for text in texts]


def _hash_recovery_code(text: str) -> bytes:
    return tokens.digest(_strip(text).lower())


def _strip(text: str) -> str:
    """Return a code without blanks and hyphens."""
    return "".join(character for character in text if not character.isspace() and character != "-")
