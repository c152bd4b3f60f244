"""Queries of the alert rules.

Each query runs every few seconds and uses an index.
"""

from __future__ import annotations

import sqlite3
from typing import Literal

from integration.mirror.page_queries.history import ESTIMATED_START
from integration.mirror.page_queries.live import LONGEST_CALL


def list_unanswered_calls(
    connection: sqlite3.Connection,
    outcome: Literal["missed", "voicemail", "abandoned"],
    since: str,
    limit: int,
) -> list[sqlite3.Row]:
    """Return calls with `outcome` that ended since `since`, newest first.

    `since` is UTC text. Calls that last longer than LONGEST_CALL can be absent. Column `at` has the end, or
    the estimate for a call without a time.
    """
    hours = int(LONGEST_CALL.total_seconds() // 3600)
    selection = (
        f"SELECT c.*, coalesce(c.ended_at, {ESTIMATED_START}) AS at FROM _calls AS c"
        " WHERE c.outcome = ?1 AND {} AND c.state = 'ended'"
    )
    # Two searches of the index, because a condition with OR would read all calls of the outcome.
    since_start = selection.format(f"c.started_at >= datetime(?2, '-{hours} hours')")
    return connection.execute(
        f"SELECT * FROM ({since_start} UNION ALL {selection.format('c.started_at IS NULL')})"
        " WHERE at >= ?2 ORDER BY at DESC LIMIT ?3",
        (outcome, since, limit),
    ).fetchall()


def list_waiting_calls(
    connection: sqlite3.Connection, before: str, queue_id: int | None = None
) -> list[sqlite3.Row]:
    """Return inbound calls that ring since `before` (UTC text) or earlier.

    `queue_id` limits them to one queue. Unconfirmed calls are excluded.
    """
    return connection.execute(
        "SELECT * FROM _calls WHERE state <> 'ended' AND state = 'ringing' AND direction = 'in'"
        " AND unconfirmed = 0 AND started_at <= ?1"
        " AND (?2 IS NULL OR group_kind = 'queue' AND group_id = ?2) ORDER BY +started_at",
        (before, queue_id),
    ).fetchall()


def sum_charges(connection: sqlite3.Connection, since: str) -> float:
    """Return the cost of the external calls since `since` (UTC text), as far as CDRs have it."""
    row = connection.execute(
        "SELECT total(charge) FROM _calls INDEXED BY _calls_report"
        " WHERE started_at >= ? AND direction <> 'internal' AND charge > 0",
        (since,),
    ).fetchone()
    return float(row[0])


def list_received_messages(connection: sqlite3.Connection, since: str, limit: int) -> list[sqlite3.Row]:
    """Return SMS received since `since` (UTC text), newest first.

    Columns: key, at, sender, text.
    """
    return connection.execute(
        "SELECT key, at, sender, text FROM _messages WHERE at >= ? AND direction = 'in'"
        " ORDER BY at DESC LIMIT ?",
        (since, limit),
    ).fetchall()
