"""Log of outgoing webhooks: each attempt with the response of the receiver, for `events.log_days`.

Payloads are not stored. An entry has what a replay needs to build the payload from the present data.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from typing import Literal

from integration.core import clock
from integration.events.feed import Event
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS event_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    subscription_id INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    event_at TEXT NOT NULL,
    kind TEXT NOT NULL,
    event TEXT,
    purpose TEXT NOT NULL CHECK (purpose IN ('delivery', 'replay', 'test')),
    state TEXT NOT NULL CHECK (state IN ('delivered', 'failed', 'set aside')),
    status INTEGER,
    response TEXT NOT NULL,
    error TEXT,
    seconds REAL NOT NULL
) STRICT;
-- serves replay, and the events set aside
CREATE INDEX IF NOT EXISTS event_attempts_events ON event_attempts (subscription_id, event_id);
-- serves pages and metrics
CREATE INDEX IF NOT EXISTS event_attempts_set_aside ON event_attempts (id) WHERE state = 'set aside';
-- serves the end of `events.log_days`
CREATE INDEX IF NOT EXISTS event_attempts_at ON event_attempts (at);
"""

Purpose = Literal["delivery", "replay", "test"]
AttemptState = Literal["delivered", "failed", "set aside"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one request. `status` and `response` (at most 1 KiB) are those of the receiver, if any.

    `error` is None after a 2xx, else the reason without the path of the URL. `seconds`: its duration.
    """

    status: int | None
    response: str
    error: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """Entry of the log. Times are UTC text. `event` is JSON, None for a test."""

    id: int
    at: str
    subscription_id: int
    event_id: str
    event_at: str
    kind: str
    event: str | None
    purpose: Purpose
    state: AttemptState
    status: int | None
    response: str
    error: str | None
    seconds: float

    @property
    def key(self) -> int:
        """Id of the call, message or item; 0 without one."""
        return _read_event(self.event).key if self.event else 0


_COLUMNS = ", ".join(Attempt.__dataclass_fields__)


def record(
    tx: Transaction,
    subscription_id: int,
    event: Event,
    purpose: Purpose,
    state: AttemptState,
    outcome: Outcome,
) -> None:
    """Store an attempt, unless its subscription was removed during the request."""
    stored_event = None if purpose == "test" else json.dumps(asdict(event), separators=(",", ":"))
    tx.execute(
        f"INSERT INTO event_attempts ({_COLUMNS}) SELECT NULL, ?, id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
        " FROM event_subscriptions WHERE id = ?",
        (
            *(clock.utc_text(), event.id, event.at, event.kind, stored_event, purpose, state),
            *(outcome.status, outcome.response, outcome.error, outcome.seconds, subscription_id),
        ),
    )


def list_newest(connection: sqlite3.Connection, limit: int, before: int | None = None) -> list[Attempt]:
    """Return a page of the log, newest first. `before` is the last id of the previous page."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM event_attempts WHERE id < ? ORDER BY id DESC LIMIT ?",
        (2**62 if before is None else before, limit),
    )
    return [Attempt(*row) for row in rows]


def list_set_aside(connection: sqlite3.Connection) -> list[Attempt]:
    """Return the attempts whose event was set aside and not delivered by a replay since."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM event_attempts AS attempt WHERE state = 'set aside' AND NOT EXISTS ("
        " SELECT 1 FROM event_attempts WHERE subscription_id = attempt.subscription_id"
        " AND event_id = attempt.event_id AND state = 'delivered' AND id > attempt.id) ORDER BY id"
    )
    return [Attempt(*row) for row in rows]


def list_statuses(connection: sqlite3.Connection, subscription_id: int, event_id: str) -> list[int | None]:
    """Return the status of each attempt to deliver an event, without replays."""
    rows = connection.execute(
        "SELECT status FROM event_attempts WHERE subscription_id = ? AND event_id = ?"
        " AND purpose = 'delivery'",
        (subscription_id, event_id),
    )
    return [row[0] for row in rows]


def list_first_attempts(
    connection: sqlite3.Connection, subscription_id: int, since: str, until: str | None = None
) -> list[int]:
    """Return the first attempt of each event of the log from `since` to before `until` (UTC text)."""
    rows = connection.execute(
        "SELECT min(id) FROM event_attempts WHERE subscription_id = ? AND event_at >= ? AND event_at < ?"
        " AND purpose = 'delivery' GROUP BY event_id ORDER BY 1",
        (subscription_id, since, until or "9999"),
    )
    return [row[0] for row in rows]


def find_event(connection: sqlite3.Connection, attempt_id: int) -> tuple[int, Event] | None:
    """Return subscription and event of an attempt, None without one or for a test."""
    row = connection.execute(
        "SELECT subscription_id, event FROM event_attempts WHERE id = ? AND event IS NOT NULL", (attempt_id,)
    ).fetchone()
    return None if row is None else (row[0], _read_event(row[1]))


def delete_before(tx: Transaction, before: str) -> None:
    """Delete entries that are older than `before` (UTC text)."""
    tx.execute("DELETE FROM event_attempts WHERE at < ?", (before,))


def _read_event(text: str) -> Event:
    values = json.loads(text)
    return Event(**{**values, "changed": tuple(values["changed"])})
