"""Named queries of the alert rules: they run every few seconds, each by an index."""

from __future__ import annotations

import sqlite3
from typing import Literal


def list_unanswered_calls(
    connection: sqlite3.Connection, outcome: Literal["missed", "voicemail"], since: str, limit: int
) -> list[sqlite3.Row]:
    """Calls that began since `since` (UTC text) and ended so, newest first."""
    return connection.execute(
        "SELECT * FROM _calls WHERE outcome = ? AND started_at >= ? AND state = 'ended'"
        " ORDER BY started_at DESC LIMIT ?",
        (outcome, since, limit),
    ).fetchall()


def list_waiting_calls(connection: sqlite3.Connection, before: str) -> list[sqlite3.Row]:
    """Callers who have waited since `before` (UTC text) or longer."""
    return connection.execute(
        "SELECT * FROM _calls WHERE state <> 'ended' AND state = 'ringing' AND direction = 'in'"
        " AND unconfirmed = 0 AND started_at <= ? ORDER BY +started_at",
        (before,),
    ).fetchall()


def summarize_failed_downloads(connection: sqlite3.Connection) -> sqlite3.Row:
    """n: recordings and voice messages whose download failed; since: when the first of them last did (UTC
    text); why: the newest error."""
    row: sqlite3.Row = connection.execute(
        "SELECT count(*) AS n, min(updated_at) AS since, max(last_error) AS why FROM media"
        " WHERE state = 'failed' AND state IN ('wanted', 'failed')"
    ).fetchone()
    return row


def list_completeness_gaps(connection: sqlite3.Connection, before: str) -> list[sqlite3.Row]:
    """collection, n records that days before `before` lack here, the first such day, and since when that is
    known (UTC text)."""
    return connection.execute(
        "SELECT collection, sum(total - ours) AS n, min(day) AS day, min(asked_at) AS since FROM _coverage"
        " WHERE total <> ours AND total > ours AND day < ? GROUP BY collection ORDER BY collection",
        (before,),
    ).fetchall()


def list_received_messages(connection: sqlite3.Connection, since: str, limit: int) -> list[sqlite3.Row]:
    """key, at, sender, text of messages that came in since `since` (UTC text), newest first."""
    return connection.execute(
        "SELECT key, at, sender, text FROM _messages WHERE at >= ? AND direction = 'in'"
        " ORDER BY at DESC LIMIT ?",
        (since, limit),
    ).fetchall()
