"""Response cache: last platform responses of resources without a table.

These are dictionaries and lists below a record. They cannot be computed from mirrored records, because the
specification shows other resources there than the names suggest. The cached response is used while the
platform is unreachable.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _answers (
    target TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL, asked_at TEXT NOT NULL
) STRICT;
-- serves the deletion of the oldest responses
CREATE INDEX IF NOT EXISTS _answers_asked_at ON _answers (asked_at);
"""

MAX_RESPONSES = 2000
"""Number of newest responses kept."""
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes of the longest response that is stored."""


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A stored response. `requested_at` is UTC text."""

    body: bytes
    content_type: str
    requested_at: str


def store(tx: Transaction, target: str, body: bytes, content_type: str, requested_at: str) -> None:
    """Store the response to `target`, the path and query of the request.

    A response requested earlier than the stored one is ignored, as is one above MAX_BODY_BYTES or with an
    erased number.
    """
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
    """Delete responses requested before `before`, except dictionaries; return how many.

    `before` is UTC text. A response can list records of any age, so retention deletes responses by the time
    of their request.
    """
    return tx.execute(
        "DELETE FROM _answers WHERE asked_at < ? AND target NOT LIKE '%/dictionaries'", (before,)
    ).rowcount


def find(connection: sqlite3.Connection, target: str) -> CachedResponse | None:
    """Return the stored response to `target` (path and query), or None."""
    row = connection.execute(
        "SELECT body, content_type, asked_at FROM _answers WHERE target = ?", (target,)
    ).fetchone()
    return None if row is None else CachedResponse(row[0], row[1], row[2])
