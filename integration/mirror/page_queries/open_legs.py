"""Queries of the live poll for open, unread and ended legs."""

from __future__ import annotations

import sqlite3

from integration.sqlite.transaction import Transaction


def list_open_legs(connection: sqlite3.Connection | Transaction, seen_before: str | None = None) -> list[int]:
    """Return the ids of open legs, ascending.

    A leg is open if it has a row in `calls` or its row in `_legs` has not ended. With `seen_before` (UTC
    text) rows of `calls` that were first seen later are excluded.
    """
    rows = connection.execute(
        "SELECT id FROM calls WHERE ? IS NULL OR _first_seen <= ? UNION "
        "SELECT leg_id FROM _legs WHERE state <> 'ENDED' AND NOT EXISTS "
        "(SELECT 1 FROM calls WHERE calls.id = _legs.leg_id) ORDER BY 1",
        (seen_before, seen_before),
    )
    return [row[0] for row in rows]


def list_unread_legs(connection: sqlite3.Connection, limit: int) -> list[int]:
    """Return the ids of open legs that only webhooks reported.

    No poll has listed or missed them, and they were not requested by their own paths.
    """
    rows = connection.execute(
        "SELECT calls.id FROM calls JOIN _legs ON _legs.leg_id = calls.id WHERE _legs.state <> 'ENDED' "
        "AND NOT EXISTS (SELECT 1 FROM _leg_live WHERE _leg_live.leg_id = calls.id) ORDER BY 1 LIMIT ?",
        (limit,),
    )
    return [row[0] for row in rows]


def list_ended_legs(connection: sqlite3.Connection | Transaction) -> list[int]:
    """Return the ids of ended legs in table `calls` (live calls)."""
    rows = connection.execute(
        "SELECT calls.id FROM calls JOIN _legs ON _legs.leg_id = calls.id WHERE _legs.state = 'ENDED'"
    )
    return [row[0] for row in rows]


def has_calls_without_webhook(connection: sqlite3.Connection, since: str) -> bool:
    """Return whether a CDR since `since` (UTC text) has no webhook."""
    row = connection.execute(
        "SELECT 1 FROM cdrs WHERE calldate >= ? AND live_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM _leg_events WHERE _leg_events.leg_id = cdrs.live_id) LIMIT 1",
        (since,),
    ).fetchone()
    return row is not None
