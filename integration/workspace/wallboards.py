"""Wallboards: pages with today's figures for a screen, accessible with a token.

The token in the URL has 192 random bits. It is shown once and stored hashed, like the secret of a key.
"""

from __future__ import annotations

from dataclasses import dataclass

from integration.core import clock, tokens
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.schema import Schema, read_columns
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS wallboards (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    token_hash BLOB NOT NULL UNIQUE,
    level_target INTEGER NOT NULL,
    wait_target INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    seen_at REAL,
    callback_target INTEGER
) STRICT;
"""

SEEN_INTERVAL_SECONDS = 60.0
"""Seconds between updates of `seen_at`."""


@dataclass(frozen=True, slots=True)
class Wallboard:
    """A wallboard and its targets.

    `level_target` is the lowest service level in per cent, `wait_target` the longest wait in seconds,
    `callback_target` the largest number of open call-backs, None without a target. `seen_at` is the last
    request (Unix seconds), or None.
    """

    id: int
    name: str
    level_target: int
    wait_target: int
    created_at: str
    seen_at: float | None
    callback_target: int | None


_COLUMNS = "id, name, level_target, wait_target, created_at, seen_at, callback_target"


def make_callback_target_optional(schema: Schema) -> None:
    """Migration: replace the column `missed_target`. Its default, 0, becomes no target."""
    if "missed_target" not in read_columns(schema).get("wallboards", ()):
        return
    schema.execute("ALTER TABLE wallboards ADD COLUMN callback_target INTEGER")
    schema.execute("UPDATE wallboards SET callback_target = nullif(missed_target, 0)")
    schema.execute("ALTER TABLE wallboards DROP COLUMN missed_target")


def add(
    app_db: Database,
    name: str,
    *,
    level_target: int = 80,
    wait_target: int = 60,
    callback_target: int | None = None,
) -> str:
    """Create a wallboard. Returns its token, which is not stored. Raises DomainError."""
    name = name.strip()
    if not name or len(name) > 60 or not name.isprintable():
        raise DomainError("Enter a name of 1 to 60 printable characters.")
    if not (0 <= level_target <= 100 and 0 <= wait_target <= 86400 and 0 <= (callback_target or 0) <= 9999):
        raise DomainError(
            "Invalid target. Enter a service level of 0 to 100 %, a wait of 0 to 86,400 s and 0 to 9,999"
            " call-backs."
        )
    token = tokens.new(24)
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO wallboards"
            " (name, token_hash, level_target, wait_target, callback_target, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (name, tokens.digest(token), level_target, wait_target, callback_target, clock.utc_text()),
        )
    )
    return token


def find(app_db: Database, token: str) -> Wallboard | None:
    """Return the wallboard with this token and record the request.

    Returns None for an unknown token.
    """
    with app_db.read() as connection:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM wallboards WHERE token_hash = ?", (tokens.digest(token),)
        ).fetchone()
    if row is None:
        return None
    board, now = Wallboard(*row), clock.unix()
    if board.seen_at is None or abs(now - board.seen_at) >= SEEN_INTERVAL_SECONDS:
        app_db.submit(
            lambda tx: tx.execute("UPDATE wallboards SET seen_at = ? WHERE id = ?", (now, board.id))
        )
    return board


def list_all(app_db: Database) -> list[Wallboard]:
    with app_db.read() as connection:
        return [
            Wallboard(*row) for row in connection.execute(f"SELECT {_COLUMNS} FROM wallboards ORDER BY name")
        ]


def revoke(app_db: Database, wallboard_id: int) -> str:
    """Delete a wallboard, which invalidates its URL. Returns its name.

    Raises DomainError for an unknown id.
    """

    def work(tx: Transaction) -> str:
        row = tx.execute("SELECT name FROM wallboards WHERE id = ?", (wallboard_id,)).fetchone()
        if row is None:
            raise DomainError("This wallboard was already removed.")
        tx.execute("DELETE FROM wallboards WHERE id = ?", (wallboard_id,))
        return str(row["name"])

    return app_db.write(work)
