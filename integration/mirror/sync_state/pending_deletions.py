"""Pending deletions: accepted by the platform with 202, not confirmed yet."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.core.retry_delays import DELETIONS
from integration.sqlite.retry_queue import RetryQueue
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _accepted (
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, keys TEXT, asked_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL
) STRICT;
"""

QUEUE = RetryQueue("_accepted", key=("id",), delays=DELETIONS, due_at="due_at")


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """A pending deletion of `keys`; None for the entire collection."""

    id: int
    collection: str
    keys: list[int] | None
    tries: int


def add(tx: Transaction, collection: str, keys: Sequence[int] | None, requested_at: str) -> None:
    """Store a deletion requested at `requested_at` (UTC text)."""
    tx.execute(
        "INSERT INTO _accepted (collection, keys, asked_at, due_at) VALUES (?, ?, ?, ?)",
        (
            collection,
            None if keys is None else json.dumps(list(keys)),
            requested_at,
            clock.unix() + DELETIONS[0],
        ),
    )


def due(connection: sqlite3.Connection, now: float) -> list[PendingDeletion]:
    """Return the deletions to poll at `now` (Unix seconds)."""
    return [
        PendingDeletion(
            row["id"], row["collection"], json.loads(row["keys"]) if row["keys"] else None, row["tries"]
        )
        for row in QUEUE.due(connection, now)
    ]


def remove(tx: Transaction, deletion: PendingDeletion) -> None:
    """Remove a deletion that the platform has finished."""
    tx.execute("DELETE FROM _accepted WHERE id = ?", (deletion.id,))


def reschedule(tx: Transaction, deletion: PendingDeletion, remaining_keys: Sequence[int] | None) -> None:
    """Schedule the next poll of a deletion; remove it after the last.

    `remaining_keys`: keys that the platform still has; None for the entire collection.
    """
    keys = None if remaining_keys is None else json.dumps(list(remaining_keys))
    if not QUEUE.fail(tx, (deletion.id,), deletion.tries + 1, clock.unix(), keys=keys):
        remove(tx, deletion)
