"""The last answer to what is always asked of the platform: dictionaries, and lists below a record.

What such a path answers can't be told from mirrored records (the specification shows other resources there
than the names suggest), so the answer itself is kept, for when the platform is away.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _answers (
    target TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL, asked_at TEXT NOT NULL
) STRICT;
-- serves forgetting the oldest
CREATE INDEX IF NOT EXISTS _answers_asked_at ON _answers (asked_at);
"""

KEPT = 2000
LONGEST = 2 * 1024 * 1024
"""Bytes; a longer answer is not kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """`asked_at` is UTC text."""

    body: bytes
    content_type: str
    asked_at: str


def keep(tx: Transaction, target: str, body: bytes, content_type: str, asked_at: str) -> None:
    """`target` is path and query as asked. An answer asked for earlier never replaces a later one."""
    gate = tx.gates.get("_answers")
    if len(body) > LONGEST or (gate is not None and gate(body) is None):
        return
    tx.execute(
        "INSERT INTO _answers VALUES (?, ?, ?, ?) ON CONFLICT (target) DO UPDATE SET body = excluded.body,"
        " content_type = excluded.content_type, asked_at = excluded.asked_at"
        " WHERE excluded.asked_at >= _answers.asked_at",
        (target, content_type, body, asked_at),
    )
    tx.execute(
        "DELETE FROM _answers WHERE target IN (SELECT target FROM _answers ORDER BY asked_at DESC"
        " LIMIT -1 OFFSET ?)",
        (KEPT,),
    )


def forget(tx: Transaction, before: str) -> int:
    """Remove what was asked before `before` (UTC text), but for dictionaries; returns how many. An answer may
    list records as old as the account."""
    return tx.execute(
        "DELETE FROM _answers WHERE asked_at < ? AND target NOT LIKE '%/dictionaries'", (before,)
    ).rowcount


def find(connection: sqlite3.Connection, target: str) -> Kept | None:
    row = connection.execute(
        "SELECT body, content_type, asked_at FROM _answers WHERE target = ?", (target,)
    ).fetchone()
    return None if row is None else Kept(row[0], row[1], row[2])
