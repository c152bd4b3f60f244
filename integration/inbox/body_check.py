"""Find webhooks and call events whose stored bytes have changed.

`body_hash` is the sha256 of the body as received or erased. Call events in mirror.db have their own hash.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass

from integration.mirror.calls.store import hash_payload
from integration.sqlite.readers import read_tolerantly


@dataclass(frozen=True, slots=True)
class ChangedBody:
    """Webhook whose body differs from its hash. `received_at`: UTC text."""

    seq: int
    received_at: str


@dataclass(frozen=True, slots=True)
class ChangedEvent:
    """Stored call event whose payload differs from its hash."""

    event_id: str
    leg_id: int


def check_bodies(
    connection: sqlite3.Connection, after: int, limit: int
) -> tuple[int | None, int, list[ChangedBody]]:
    """Check at most `limit` webhooks of inbox.db with a seq above `after`.

    Returns the last seq (None without a webhook), their number and the changed ones.
    """
    last_seq, count, changed = None, 0, list[ChangedBody]()
    for seq, received_at, body, body_hash in connection.execute(
        "SELECT seq, received_at, body, body_hash FROM inbox WHERE seq > ? ORDER BY seq LIMIT ?",
        (after, limit),
    ):
        last_seq, count = seq, count + 1
        if hashlib.sha256(body).digest() != body_hash:
            changed.append(ChangedBody(seq, received_at))
    return last_seq, count, changed


def check_events(
    connection: sqlite3.Connection, after: tuple[str, str], limit: int
) -> tuple[tuple[str, str] | None, int, list[ChangedEvent]]:
    """Check at most `limit` call events with keys above `after`.

    Returns the last key (None without an event), their number and the changed ones.
    """
    sql = (
        "SELECT event_id, body_hash, leg_id, doc FROM _leg_events WHERE (event_id, body_hash) > (?, ?)"
        " ORDER BY event_id, body_hash LIMIT ?"
    )
    rows = read_tolerantly(connection, lambda: connection.execute(sql, (*after, limit)).fetchall())
    last_key = None if not rows else (rows[-1][0], rows[-1][1])
    changed = [
        ChangedEvent(event_id, leg_id)
        for event_id, body_hash, leg_id, doc in rows
        if hash_payload(doc) != body_hash
    ]
    return last_key, len(rows), changed
