"""Deletions that the platform accepted (202) and has not done yet, as far as we know."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.sqlite.retry_queue import RetryQueue
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS _accepted (
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, keys TEXT, asked_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, due_at REAL NOT NULL
) STRICT;
"""

RETRY_DELAYS: tuple[float, ...] = (0.0, 1, 5, 30, 120, 600, 3600)
"""Seconds before each look; after the last the next complete walk finds out."""

QUEUE = RetryQueue("_accepted", key=("id",), gaps=RETRY_DELAYS, due_at="due_at")


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """`keys` None: the whole collection."""

    id: int
    collection: str
    keys: list[int] | None
    tries: int


def add(tx: Transaction, collection: str, keys: Sequence[int] | None, requested_at: str) -> None:
    tx.execute(
        "INSERT INTO _accepted (collection, keys, asked_at, due_at) VALUES (?, ?, ?, ?)",
        (
            collection,
            None if keys is None else json.dumps(list(keys)),
            requested_at,
            clock.unix() + RETRY_DELAYS[0],
        ),
    )


def due(connection: sqlite3.Connection, now: float) -> list[PendingDeletion]:
    return [
        PendingDeletion(
            row["id"], row["collection"], json.loads(row["keys"]) if row["keys"] else None, row["tries"]
        )
        for row in QUEUE.due(connection, now)
    ]


def remove(tx: Transaction, deletion: PendingDeletion) -> None:
    tx.execute("DELETE FROM _accepted WHERE id = ?", (deletion.id,))


def reschedule(tx: Transaction, deletion: PendingDeletion, remaining_keys: Sequence[int] | None) -> None:
    """Some of it is still there: `remaining_keys`, None for any of the whole collection."""
    keys = None if remaining_keys is None else json.dumps(list(remaining_keys))
    if not QUEUE.fail(tx, (deletion.id,), deletion.tries + 1, clock.unix(), keys=keys):
        remove(tx, deletion)
