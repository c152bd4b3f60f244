"""Named queries of the inbox for the System page. Bodies stay where they are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.inbox.store import Inbox

TROUBLED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Overview:
    """`last_received_at` is text UTC or None; `total` counts stored webhooks; `by_status` those that are not
    done; `troubled` has the newest that failed, are unknown or unreadable: seq, event_name, received_at,
    status, error."""

    last_received_at: str | None
    total: int
    by_status: dict[str, int]
    troubled: list[sqlite3.Row]


def overview(inbox: Inbox) -> Overview:
    with inbox.database.read() as connection:
        newest = connection.execute("SELECT received_at FROM inbox ORDER BY seq DESC LIMIT 1").fetchone()
        return Overview(
            newest["received_at"] if newest else None,
            # Rows are never deleted one by one, and counting a million takes longer than this page may.
            connection.execute("SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM inbox").fetchone()[0],
            dict(
                connection.execute(
                    "SELECT status, count(*) FROM inbox WHERE status <> 'done' GROUP BY status"
                ).fetchall()
            ),
            connection.execute(
                "SELECT seq, event_name, received_at, status, error FROM inbox"
                " WHERE status <> 'done' AND status <> 'new' ORDER BY seq DESC LIMIT ?",
                (TROUBLED_SHOWN,),
            ).fetchall(),
        )


def one(inbox: Inbox, seq: int) -> sqlite3.Row | None:
    """A webhook with its body as received (bytes)."""
    with inbox.database.read() as connection:
        row: sqlite3.Row | None = connection.execute(
            "SELECT seq, event_id, event_name, received_at, status, deliveries, error, applied_at, flagged,"
            " body FROM inbox WHERE seq = ?",
            (seq,),
        ).fetchone()
    return row
