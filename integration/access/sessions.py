"""Sessions of dashboard users.

The cookie has a random token; table `sessions` has its hash. A session ends after `IDLE_SECONDS` without a
request, `MAX_AGE_SECONDS` after the login, when it is revoked, and when the user's password changes.

A session whose user still has to enter or set up a second factor gives access to nothing else. `find` does
not return it.
"""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from integration.access import people, session_ends
from integration.core import clock, tokens
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

if TYPE_CHECKING:
    from integration.sqlite.schema import Schema

IDLE_SECONDS = 12 * 3600.0
"""Seconds without a request after which a session ends.

A page in the background survives a working day.
"""
MAX_AGE_SECONDS = 7 * 86400.0
"""Seconds after login at which a session ends."""
CODE_SECONDS = 600.0
"""Seconds after the password in which the second factor can be entered."""
CONFIRMED_SECONDS = 600.0
"""Seconds after a login, or a confirmation by password or code, in which sensitive changes are accepted."""
JUMP_SECONDS = 60.0
"""Seconds of deviation from the monotonic clock from which the clock counts as set."""
KEEP_ENDED_SECONDS = MAX_AGE_SECONDS
"""Seconds after the end of a session in which the login page shows the reason."""
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
    agent TEXT NOT NULL,
    confirmed_at REAL NOT NULL DEFAULT 0,
    factor_at REAL
) STRICT;
CREATE INDEX IF NOT EXISTS sessions_person ON sessions (person_id); -- serves a person's list, and its end
"""
"""`factor_at`: time at which the second factor was entered, null without."""

SessionState = Literal["complete", "code", "setup"]
"""`code`: the code of the second factor is missing. `setup`: the required second factor is missing."""

_SELECT = (
    "SELECT people.*, sessions.id AS session_id, token_hash, person_id, address, agent, "
    "sessions.created_at AS begun_at, seen_at, confirmed_at, factor_at, "
    "EXISTS (SELECT 1 FROM second_factors WHERE second_factors.person_id = people.id "
    "AND enabled_at IS NOT NULL) AS has_factor FROM sessions JOIN people ON people.id = person_id "
)


@dataclass(frozen=True, slots=True)
class Session:
    """Login of a dashboard user. Times are Unix seconds.

    `confirmed_at`: time of the login, or of the last confirmation by password or code.
    """

    id: int
    person_id: int
    created_at: float
    seen_at: float
    address: str
    agent: str
    confirmed_at: float
    state: SessionState

    @property
    def is_confirmed(self) -> bool:
        """True if a sensitive change needs no new confirmation."""
        return 0 <= clock.unix() - self.confirmed_at < CONFIRMED_SECONDS


def derive_csrf_token(token: str) -> str:
    """Return the CSRF token of a browser token.

    It is derived, so it is not stored.
    """
    return hmac.new(token.encode("utf-8", "replace"), b"switchroom csrf", hashlib.sha256).hexdigest()


def create(app_db: Database, person_id: int, **details: Any) -> str:
    """Create a session and return its token. `details`: the other arguments of `insert`."""
    token = tokens.new()
    app_db.write(lambda tx: insert(tx, token, person_id, **details))
    return token


def insert(
    tx: Transaction,
    token: str,
    person_id: int,
    *,
    address: str = "",
    agent: str = "",
    replaced_token: str | None = None,
    has_factor: bool = False,
) -> None:
    """Store a session.

    `replaced_token`: the token that the browser sent. Its session ends, or an attacker who set the cookie
    would be logged in as this user (session fixation). `has_factor`: the user has just entered a code.
    """
    now = clock.unix()
    earliest = now - KEEP_ENDED_SECONDS
    tx.execute(
        "DELETE FROM sessions WHERE seen_at <= ? OR created_at <= ?",
        (earliest - IDLE_SECONDS, earliest - MAX_AGE_SECONDS),
    )
    tx.execute("DELETE FROM sessions_ended_by_admin WHERE ended_at <= ?", (earliest,))
    if replaced_token is not None:
        session_ends.end_sessions(tx, "token_hash = ?", (tokens.digest(replaced_token),))
    tx.execute(
        "INSERT INTO sessions "
        "(token_hash, person_id, created_at, seen_at, address, agent, confirmed_at, factor_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            tokens.digest(token), person_id, now, now, address[:64], agent[:200], now,
            now if has_factor else None,
        ),
    )  # fmt: skip


def find(
    app_db: Database, token: str, *, touch: bool = True, second_factor_roles: Collection[str] = ()
) -> tuple[Session, people.Person] | None:
    """Return a complete session and its user by token, else None.

    `touch` stores the time of use, without waiting for the commit. `second_factor_roles` are the roles that
    must have a second factor.
    """
    found = find_incomplete(app_db, token, touch=touch, second_factor_roles=second_factor_roles)
    return found if found is not None and found[0].state == "complete" else None


def find_incomplete(
    app_db: Database, token: str, *, touch: bool = True, second_factor_roles: Collection[str] = ()
) -> tuple[Session, people.Person] | None:
    """Return a session in any state, see `find`. The caller checks `Session.state`."""
    now = clock.unix()
    with app_db.read() as connection:
        row = connection.execute(_SELECT + "WHERE token_hash = ?", (tokens.digest(token),)).fetchone()
    if row is None or now >= row["seen_at"] + IDLE_SECONDS or now >= row["begun_at"] + MAX_AGE_SECONDS:
        return None
    if not tokens.matches(token, row["token_hash"]):
        return None
    session, person = _from_row(row, second_factor_roles), people.from_row(row)
    if session.state == "code" and now >= session.created_at + CODE_SECONDS:
        return None
    # abs(): after the clock was set back, `seen_at` is in the future and is replaced as well.
    if touch and abs(now - session.seen_at) >= SEEN_INTERVAL_SECONDS:
        app_db.submit(
            lambda tx: tx.execute("UPDATE sessions SET seen_at = ? WHERE id = ?", (now, session.id))
        )
    return session, person


def confirm(app_db: Database, session_id: int) -> None:
    """Record that the user has confirmed the session by password or code."""
    now = clock.unix()
    app_db.write(
        lambda tx: tx.execute("UPDATE sessions SET confirmed_at = ? WHERE id = ?", (now, session_id))
    )


def list_of_person(app_db: Database, person_id: int) -> list[Session]:
    """Return the active sessions of a dashboard user, newest first.

    Sessions that wait for the code of the second factor are not among them.
    """
    now = clock.unix()
    with app_db.read() as connection:
        rows = connection.execute(
            _SELECT + "WHERE person_id = ? AND seen_at > ? AND sessions.created_at > ? "
            "ORDER BY sessions.id DESC",
            (person_id, now - IDLE_SECONDS, now - MAX_AGE_SECONDS),
        ).fetchall()
    sessions = [_from_row(row, ()) for row in rows]
    return [session for session in sessions if session.state == "complete"]


def _from_row(row: sqlite3.Row, second_factor_roles: Collection[str]) -> Session:
    state: SessionState = "complete"
    if row["has_factor"]:
        state = "complete" if row["factor_at"] is not None else "code"
    elif people.from_row(row).role in second_factor_roles:
        state = "setup"
    return Session(
        row["session_id"],
        row["person_id"],
        row["begun_at"],
        row["seen_at"],
        row["address"],
        row["agent"],
        row["confirmed_at"],
        state,
    )


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
                    "UPDATE sessions SET created_at = created_at + ?1, seen_at = seen_at + ?1,"
                    " confirmed_at = confirmed_at + ?1",
                    (jump,),
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
    app_db.write(lambda tx: session_ends.end_sessions(tx, "token_hash = ?", (tokens.digest(token),)))


def revoke(app_db: Database, session_id: int, *, by_admin: bool = False) -> None:
    """End a session by its id, at once."""
    app_db.write(lambda tx: session_ends.end_sessions(tx, "id = ?", (session_id,), by_admin=by_admin))


def revoke_all(
    app_db: Database, person_id: int, *, except_id: int | None = None, by_admin: bool = False
) -> None:
    """End the sessions of a dashboard user, except one by its id."""
    condition: session_ends.Condition = "person_id = ? AND id IS NOT ?"
    app_db.write(
        lambda tx: session_ends.end_sessions(tx, condition, (person_id, except_id), by_admin=by_admin)
    )


def explain_end(app_db: Database, token: str) -> str:
    """Return why the session of a token ended, such as 'after 12 hours without use', else ''."""
    now, token_hash = clock.unix(), tokens.digest(token)
    with app_db.read() as connection:
        query = "SELECT 1 FROM sessions_ended_by_admin WHERE token_hash = ?"
        if connection.execute(query, (token_hash,)).fetchone():
            return "by an administrator"
        row = connection.execute(_SELECT + "WHERE token_hash = ?", (token_hash,)).fetchone()
    if row is None or _from_row(row, ()).state != "complete":
        return ""
    if now >= row["begun_at"] + MAX_AGE_SECONDS:
        return f"after {MAX_AGE_SECONDS / 86400:.0f} days"
    return (
        f"after {IDLE_SECONDS / 3600:.0f} hours without use" if now >= row["seen_at"] + IDLE_SECONDS else ""
    )


def add_confirmation_columns(schema: Schema) -> None:
    """Migration: add the times of the confirmation and of the second factor.

    Existing sessions have to be confirmed before the next sensitive change.
    """
    table = schema.table("sessions")
    if table.exists() and "confirmed_at" not in table.columns_dict:
        schema.execute("ALTER TABLE sessions ADD COLUMN confirmed_at REAL NOT NULL DEFAULT 0")
        schema.execute("ALTER TABLE sessions ADD COLUMN factor_at REAL")
