"""Notification log: sent, waiting and failed notifications.

The table has one row per message and target. A row is inserted in the transaction that marks its alerts as
notified, and sent afterwards. A notification that a crash interrupts is therefore sent twice rather than
lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Literal, get_args

from integration.core import clock
from integration.core.ids import id_list
from integration.core.retry_delays import NOTIFICATIONS
from integration.sqlite.database import Database
from integration.sqlite.retry_queue import RetryQueue
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS alert_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    rule_id INTEGER NOT NULL,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('alert', 'recovered', 'test')),
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    channel TEXT NOT NULL CHECK (channel IN ('notice', 'email', 'post', 'apprise')),
    target TEXT NOT NULL,
    place INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sent', 'failed')),
    tries INTEGER NOT NULL,
    next_at TEXT,
    tried_at TEXT,
    error TEXT
) STRICT;
-- serves the senders
CREATE INDEX IF NOT EXISTS alert_log_waiting ON alert_log (channel, next_at) WHERE state = 'waiting';
-- serves the cool-down of a rule
CREATE INDEX IF NOT EXISTS alert_log_rule ON alert_log (rule_id, at);
-- serves the health of a channel
CREATE INDEX IF NOT EXISTS alert_log_tried ON alert_log (channel, tried_at);
"""

NotificationKind = Literal["alert", "recovered", "test"]
Channel = Literal["notice", "email", "post", "apprise"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)

QUEUE = RetryQueue(
    "alert_log",
    key=("id",),
    delays=NOTIFICATIONS,
    waiting="state = 'waiting'",
    order="next_at, id",
    encode=clock.utc_text,
)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification for one target. Times are UTC text.

    `target` is a display name without credentials. `place` is the index in `alerts.urls`. `error` is the
    reason why the last attempt failed. `next_at` None: no further attempt.
    """

    id: int
    at: str
    rule_id: int
    rule: str
    kind: NotificationKind
    subject: str
    body: str
    channel: Channel
    target: str
    place: int
    state: Literal["waiting", "sent", "failed"]
    tries: int
    next_at: str | None
    tried_at: str | None
    error: str | None


_COLUMNS = ", ".join(field.name for field in fields(Notification)[1:])


def add(tx: Transaction, notifications: Iterable[Notification]) -> None:
    """Insert notifications. Their `id` is ignored; the table assigns a new one."""
    for notification in notifications:
        _, *values = astuple(notification)
        tx.execute(f"INSERT INTO alert_log ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values)


def find_due(connection: sqlite3.Connection, channel: Channel) -> Notification | None:
    """Return the notification of a channel that is due longest, or None."""
    rows = QUEUE.due(connection, clock.unix(), 1, channel=channel)
    return Notification(*rows[0]) if rows else None


def mark_sent(app_db: Database, notification: Notification) -> None:
    key, tries = (notification.id,), notification.tries + 1
    result = {"state": "sent", "tried_at": clock.utc_text(), "error": None}
    app_db.write(lambda tx: QUEUE.finish(tx, key, tries, **result))


def mark_failed(app_db: Database, notification: Notification, error: str) -> None:
    """Record a failed attempt.

    Schedule the next one, unless this was the last. Other notifications of the target wait for the shortest
    gap, so that they do not delay those of other targets.
    """

    def work(tx: Transaction) -> None:
        next_at = clock.utc_text(clock.unix() + NOTIFICATIONS[1])
        tx.execute(
            "UPDATE alert_log SET next_at = ?1 WHERE channel = ?2 AND target = ?3 AND state = 'waiting'"
            " AND next_at < ?1",
            (next_at, notification.channel, notification.target),
        )
        key, tries = (notification.id,), notification.tries + 1
        attempt = {"tried_at": clock.utc_text(), "error": error[:500]}
        if not QUEUE.fail(tx, key, tries, clock.unix(), **attempt):
            QUEUE.finish(tx, key, tries, state="failed", **attempt)

    app_db.write(work)


def mark_undeliverable(app_db: Database, notification: Notification, error: str) -> None:
    """Mark a notification as failed without an attempt.

    Its channel does not count as failing.
    """
    app_db.write(
        lambda tx: tx.execute(
            "UPDATE alert_log SET state = 'failed', next_at = NULL, tried_at = NULL, error = ? WHERE id = ?",
            (error, notification.id),
        )
    )


def describe_failures(connection: sqlite3.Connection, channel: Channel, since: str) -> str | None:
    """Return the errors of failing targets, or None.

    A target fails if its last attempt failed and was after `since` (UTC text).
    """
    rows = connection.execute(
        # In SQLite the other columns of a query with max() are those of the row with the maximum.
        "SELECT target, error, max(printf('%s %012d', tried_at, id)) AS last FROM alert_log"
        " WHERE channel = ? AND tried_at >= ? GROUP BY target ORDER BY target",
        (channel, since),
    )
    return "; ".join(f"{row['target']}: {row['error']}" for row in rows if row["error"]) or None


def count_waiting(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of waiting notifications by channel."""
    rows = connection.execute(
        "SELECT channel, count(*) FROM alert_log WHERE state = 'waiting' GROUP BY channel"
    )
    return dict(tuple(row) for row in rows)


def find_last_alert_times(connection: sqlite3.Connection, rule_ids: Iterable[int]) -> dict[int, str]:
    """Return the time of each rule's last alert notification.

    Keys are rule ids, times are UTC text. Rules without an alert are absent.
    """
    rows = connection.execute(
        # One search for each rule, because max(at) with GROUP BY reads the entire log.
        "SELECT value, (SELECT at FROM alert_log WHERE rule_id = value AND kind = 'alert'"
        " ORDER BY at DESC LIMIT 1) AS last_at FROM json_each(?)",
        (id_list(rule_ids),),
    )
    return {row[0]: row[1] for row in rows if row[1] is not None}


def list_newest(connection: sqlite3.Connection, limit: int, before: int | None = None) -> list[Notification]:
    """Return a page of the log, newest first.

    `before` is the last id of the previous page.
    """
    rows = connection.execute(
        "SELECT * FROM alert_log WHERE id < ? ORDER BY id DESC LIMIT ?",
        (2**62 if before is None else before, limit),
    )
    return [Notification(*row) for row in rows]
