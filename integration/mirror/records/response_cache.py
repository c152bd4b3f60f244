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

MAX_RESPONSES = 2000
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes; a longer answer is not kept."""


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """`requested_at` is UTC text."""

    body: bytes
    content_type: str
    requested_at: str


def store(tx: Transaction, target: str, body: bytes, content_type: str, requested_at: str) -> None:
    """`target` is path and query as asked. An answer asked for earlier never replaces a later one."""
    gate = tx.gates.get("_answers")
    if len(body) > MAX_BODY_BYTES or (gate is not None and gate(body) is None):
        return
    tx.execute(
        "INSERT INTO _answers VALUES (?, ?, ?, ?) ON CONFLICT (target) DO UPDATE SET body = excluded.body,"
        " content_type = excluded.content_type, asked_at = excluded.asked_at"
        " WHERE excluded.asked_at >= _answers.asked_at",
        (target, content_type, body, requested_at),
    )
    tx.execute(
        "DELETE FROM _answers WHERE target IN (SELECT target FROM _answers ORDER BY asked_at DESC"
        " LIMIT -1 OFFSET ?)",
        (MAX_RESPONSES,),
    )


def delete_older_than(tx: Transaction, before: str) -> int:
    """Remove what was asked before `before` (UTC text), but for dictionaries; returns how many. An answer may
    list records as old as the account."""
    return tx.execute(
        "DELETE FROM _answers WHERE asked_at < ? AND target NOT LIKE '%/dictionaries'", (before,)
    ).rowcount


def find(connection: sqlite3.Connection, target: str) -> CachedResponse | None:
    row = connection.execute(
        "SELECT body, content_type, asked_at FROM _answers WHERE target = ?", (target,)
    ).fetchone()
    return None if row is None else CachedResponse(row[0], row[1], row[2])
