"""Which legs are open as far as we know, and whether webhooks tell of calls at all."""

from __future__ import annotations

import sqlite3

from integration.sqlite.transaction import Transaction


def list_open_legs(connection: sqlite3.Connection | Transaction, seen_before: str | None = None) -> list[int]:
    """Ids of legs that are not known to have ended; with `seen_before` (UTC text) those first heard of by
    then.

    A leg stands in `calls` while it is live, and in `_legs` as long as nothing says that it ended.
    """
    rows = connection.execute(
        "SELECT id FROM calls WHERE ? IS NULL OR _first_seen <= ? UNION "
        "SELECT leg_id FROM _legs WHERE state <> 'ENDED' AND NOT EXISTS "
        "(SELECT 1 FROM calls WHERE calls.id = _legs.leg_id) ORDER BY 1",
        (seen_before, seen_before),
    )
    return [row[0] for row in rows]


def list_ended_legs(connection: sqlite3.Connection | Transaction) -> list[int]:
    """Legs in `calls` that have ended all the same."""
    rows = connection.execute(
        "SELECT calls.id FROM calls JOIN _legs ON _legs.leg_id = calls.id WHERE _legs.state = 'ENDED'"
    )
    return [row[0] for row in rows]


def has_calls_without_webhook(connection: sqlite3.Connection, since: str) -> bool:
    """Whether REST showed a call since `since` (UTC text) that no webhook told."""
    row = connection.execute(
        "SELECT 1 FROM cdrs WHERE calldate >= ? AND live_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM _leg_events WHERE _leg_events.leg_id = cdrs.live_id) LIMIT 1",
        (since,),
    ).fetchone()
    return row is not None
