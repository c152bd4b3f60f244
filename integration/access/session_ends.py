"""End of sessions before their time, and the memory of who ended them.

Table `sessions_ended_by_admin` has the hashes of tokens whose session an administrator ended, for as long as
a session can last.
"""

from __future__ import annotations

from typing import Literal

from integration.core import clock
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS sessions_ended_by_admin (
    token_hash BLOB PRIMARY KEY,
    ended_at REAL NOT NULL
) STRICT;
"""

HOOK = "sessions"
"""Key of the hooks of house.db that run after an end of sessions or keys, or a change of rights."""

Condition = Literal["token_hash = ?", "id = ?", "person_id = ?", "person_id = ? AND id IS NOT ?"]


def end_sessions(
    tx: Transaction, condition: Condition, parameters: tuple[object, ...], *, by_admin: bool = False
) -> None:
    """End the sessions that meet `condition`, within a transaction.

    `by_admin`: the login page shows that an administrator ended them.
    """
    if by_admin:
        tx.execute(
            "INSERT OR IGNORE INTO sessions_ended_by_admin "
            f"SELECT token_hash, ? FROM sessions WHERE {condition}",
            (clock.unix(), *parameters),
        )
    tx.execute(f"DELETE FROM sessions WHERE {condition}", parameters)
    report_change(tx)


def report_change(tx: Transaction) -> None:
    """Let open pages verify their logins, and waiting requests their keys, after the commit."""
    for hook in tx.hooks.get(HOOK, ()):
        hook(tx, None)
