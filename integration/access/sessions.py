"""Sessions of dashboard users.

The cookie has a random token; table `sessions` has its hash. A session ends after `IDLE_SECONDS` without a
request, `MAX_AGE_SECONDS` after the login, when it is revoked, and when the user's password changes.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from integration.access import people
from integration.core import clock, tokens
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

IDLE_SECONDS = 12 * 3600.0
"""Seconds without a request after which a session ends.

A page in the background survives a working day.
"""
MAX_AGE_SECONDS = 7 * 86400.0
"""Seconds after login at which a session ends."""
JUMP_SECONDS = 60.0
"""Seconds of deviation from the monotonic clock from which the clock counts as set."""
SEEN_INTERVAL_SECONDS = 60.0
"""Seconds between two writes of a session's last use.

A write per request would sync the disk each time.
"""

TABLES = """
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    token_hash BLOB NOT NULL UNIQUE,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    created_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS sessions_person ON sessions (person_id); -- serves a person's list, and its end
"""


@dataclass(frozen=True, slots=True)
class Session:
    """Login of a dashboard user. Times are Unix seconds."""

    id: int
    person_id: int
    created_at: float
    seen_at: float
    address: str
    agent: str


def derive_csrf_token(token: str) -> str:
    """Return the CSRF token of a browser token.

    It is derived, so it is not stored.
    """
    return hmac.new(token.encode("utf-8", "replace"), b"switchroom csrf", hashlib.sha256).hexdigest()


def create(
    app_db: Database, person_id: int, *, address: str = "", agent: str = "", replaced_token: str | None = None
) -> str:
    """Create a session and return its token.

    `replaced_token`: the token that the browser sent. Its session ends, or an attacker who set the cookie
    would be logged in as this user (session fixation).
    """
    token = tokens.new()
    now = clock.unix()

    def work(tx: Transaction) -> None:
        tx.execute(
            "DELETE FROM sessions WHERE seen_at <= ? OR created_at <= ?",
            (now - IDLE_SECONDS, now - MAX_AGE_SECONDS),
        )
        if replaced_token is not None:
            tx.execute("DELETE FROM sessions WHERE token_hash = ?", (tokens.digest(replaced_token),))
        tx.execute(
            "INSERT INTO sessions (token_hash, person_id, created_at, seen_at, address, agent) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (tokens.digest(token), person_id, now, now, address[:64], agent[:200]),
        )

    app_db.write(work)
    return token


def find(app_db: Database, token: str, *, touch: bool = True) -> tuple[Session, people.Person] | None:
    """Return a session and its user by token, None if ended.

    `touch` stores the time of use, without waiting for the commit.
    """
    now = clock.unix()
    with app_db.read() as connection:
        row = connection.execute(
            "SELECT people.*, sessions.id AS session_id, token_hash, person_id, address, agent, "
            "sessions.created_at AS begun_at, seen_at "
            "FROM sessions JOIN people ON people.id = person_id WHERE token_hash = ?",
            (tokens.digest(token),),
        ).fetchone()
    if row is None or now >= row["seen_at"] + IDLE_SECONDS or now >= row["begun_at"] + MAX_AGE_SECONDS:
        return None
    if not tokens.matches(token, row["token_hash"]):
        return None
    # abs(): after the clock was set back, `seen_at` is in the future and is replaced as well.
    if touch and abs(now - row["seen_at"]) >= SEEN_INTERVAL_SECONDS:
        session_id = row["session_id"]
        app_db.submit(
            lambda tx: tx.execute("UPDATE sessions SET seen_at = ? WHERE id = ?", (now, session_id))
        )
    session = Session(
        row["session_id"], row["person_id"], row["begun_at"], row["seen_at"], row["address"], row["agent"]
    )
    return session, people.from_row(row)


def list_of_person(app_db: Database, person_id: int) -> list[Session]:
    """Return the active sessions of a dashboard user, newest first."""
    now = clock.unix()
    with app_db.read() as connection:
        rows = connection.execute(
            "SELECT id, person_id, created_at, seen_at, address, agent FROM sessions "
            "WHERE person_id = ? AND seen_at > ? AND created_at > ? ORDER BY id DESC",
            (person_id, now - IDLE_SECONDS, now - MAX_AGE_SECONDS),
        ).fetchall()
    return [Session(*row) for row in rows]


class ClockWatch:
    """Shift the times of sessions when the system clock is set.

    Call `check()` about every second. It compares the wall clock with the monotonic clock. Time during which
    the machine was suspended counts as elapsed.
    """

    def __init__(self, app_db: Database) -> None:
        self._app_db = app_db
        self._offset = self._measure_offset()

    def check(self) -> None:
        jump = self._measure_offset() - self._offset
        if abs(jump) < JUMP_SECONDS:
            return
        self._app_db.write(
            lambda tx: (
                tx.execute(
                    "UPDATE sessions SET created_at = created_at + ?1, seen_at = seen_at + ?1", (jump,)
                )
                and None
            )
        )
        self._offset += jump

    @staticmethod
    def _measure_offset() -> float:
        return clock.unix() - clock.monotonic() - clock.suspended_seconds()


def end(app_db: Database, token: str) -> None:
    """End the session of a token."""
    app_db.write(lambda tx: tx.execute("DELETE FROM sessions WHERE token_hash = ?", (tokens.digest(token),)))


def revoke(app_db: Database, session_id: int) -> None:
    """End a session by its id, at once."""
    app_db.write(lambda tx: tx.execute("DELETE FROM sessions WHERE id = ?", (session_id,)))


def revoke_all(app_db: Database, person_id: int) -> None:
    app_db.write(lambda tx: tx.execute("DELETE FROM sessions WHERE person_id = ?", (person_id,)))
