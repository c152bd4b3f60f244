"""States of export schedules' periods, and a log of delivery attempts.

A period without a row was not processed yet. A `delivered` or `skipped` period is final unless a user
requests its redelivery. An `open` period waits for its data, or for the next attempt after a failure.
"""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass
from typing import Literal

from integration.access import audit
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

TABLES = """
CREATE TABLE IF NOT EXISTS export_periods (
    schedule_id INTEGER NOT NULL REFERENCES export_schedules (id) ON DELETE CASCADE,
    period TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'delivered', 'skipped')),
    tries INTEGER NOT NULL DEFAULT 0,
    next_at TEXT,
    holds_all INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    waits_for TEXT,
    partial_at TEXT,
    again INTEGER NOT NULL DEFAULT 0,
    at_once INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (schedule_id, period)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS export_attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    period TEXT NOT NULL,
    at TEXT NOT NULL,
    file TEXT NOT NULL,
    rows INTEGER,
    bytes INTEGER,
    state TEXT NOT NULL,
    result TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS export_attempts_of ON export_attempts (schedule_id, id);
"""


@dataclass(frozen=True, slots=True)
class PeriodState:
    """State of a period. Times are UTC text.

    `tries` counts attempts since the last success or change by a user; the next is not before `next_at`.
    `holds_all`: the last attempt failed because of the target, so the schedule's other periods wait as well.
    `waits_for` describes the missing data; `partial_at` is the time at which an incomplete file was
    delivered. `redeliveries` counts those that users requested; `at_once`: a user requested the delivery
    without waiting for complete data.
    """

    period: str
    state: Literal["open", "delivered", "skipped"] = "open"
    tries: int = 0
    next_at: str | None = None
    holds_all: bool = False
    error: str | None = None
    waits_for: str | None = None
    partial_at: str | None = None
    redeliveries: int = 0
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One delivery attempt.

    `state` is 'delivered', 'incomplete' (delivered with missing data), 'failed' or 'skipped'. `rows` and
    `bytes` are None without a file.
    """

    schedule_id: int
    name: str
    period: str
    at: str
    file: str
    rows: int | None
    bytes: int | None
    state: str
    result: str


def load_period_states(connection: sqlite3.Connection, schedule_id: int) -> dict[str, PeriodState]:
    """Return the stored states of a schedule's periods by period key."""
    rows = connection.execute(
        "SELECT period, state, tries, next_at, holds_all, error, waits_for, partial_at,"
        " again AS redeliveries, at_once"
        " FROM export_periods WHERE schedule_id = ?",
        (schedule_id,),
    )
    return {
        row["period"]: PeriodState(
            **{**dict(row), "holds_all": bool(row["holds_all"]), "at_once": bool(row["at_once"])}
        )
        for row in rows
    }


def list_attempts(
    connection: sqlite3.Connection, schedule_id: int, limit: int = 100
) -> list[DeliveryAttempt]:
    """Return the newest `limit` attempts, newest first."""
    rows = connection.execute(
        "SELECT schedule_id, name, period, at, file, rows, bytes, state, result FROM export_attempts"
        " WHERE schedule_id = ? ORDER BY id DESC LIMIT ?",
        (schedule_id, limit),
    )
    return [DeliveryAttempt(*row) for row in rows]


def list_failing(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    """Return failing schedules that are not paused.

    Each is (id, name, error of the oldest failing period).
    """
    rows = connection.execute(
        "SELECT s.id, s.name, p.error, min(p.period) FROM export_schedules AS s JOIN export_periods AS p"
        " ON p.schedule_id = s.id WHERE s.paused_at IS NULL AND p.state = 'open' AND p.error IS NOT NULL"
        " GROUP BY s.id ORDER BY s.id"
    )
    return [(row[0], row[1], row[2]) for row in rows]


def request_redelivery(app_db: Database, schedule_id: int, period: str) -> None:
    """Schedule an immediate delivery of a period.

    The period may have been delivered before, and its data may be incomplete.
    """

    def work(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO export_periods (schedule_id, period, state, at_once) VALUES (?, ?, 'open', 1)"
            " ON CONFLICT DO UPDATE SET again = again + (state = 'delivered' OR partial_at IS NOT NULL),"
            " state = 'open', at_once = 1, partial_at = NULL",
            (schedule_id, period),
        )
        reset_retries(tx, schedule_id)

    app_db.write(work)


def reset_retries(tx: Transaction, schedule_id: int) -> None:
    """Clear back-off and errors of the open periods.

    The next run retries them.
    """
    tx.execute(
        "UPDATE export_periods SET tries = 0, next_at = NULL, holds_all = 0, error = NULL"
        " WHERE schedule_id = ? AND state = 'open'",
        (schedule_id,),
    )


def delete_open_periods(tx: Transaction, schedule_id: int) -> None:
    """Delete the open periods of a schedule whose frequency changes.

    The keys of these periods become invalid.
    """
    tx.execute("DELETE FROM export_periods WHERE schedule_id = ? AND state = 'open'", (schedule_id,))


def mark_waiting(app_db: Database, schedule_id: int, period: str, waits_for: str, error: str | None) -> None:
    """Record that the data of a period is incomplete.

    `error` is set if its waiting time has passed.
    """
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO export_periods (schedule_id, period, state, waits_for, error)"
            " SELECT id, ?, 'open', ?, ? FROM export_schedules WHERE id = ? ON CONFLICT DO UPDATE SET"
            " waits_for = excluded.waits_for, error = excluded.error",
            (period, waits_for, error, schedule_id),
        )
    )


def mark_started(app_db: Database, schedule_id: int, period: str, next_at: str) -> None:
    """Record the start of an attempt.

    Whatever its result, the next attempt is not before `next_at`.
    """
    app_db.write(
        lambda tx: tx.execute(
            "INSERT INTO export_periods (schedule_id, period, state, tries, next_at)"
            " SELECT id, ?, 'open', 1, ? FROM export_schedules WHERE id = ? ON CONFLICT DO UPDATE SET"
            " tries = tries + 1, next_at = excluded.next_at",
            (period, next_at, schedule_id),
        )
    )


def mark_failed(app_db: Database, attempt: DeliveryAttempt, *, holds_all: bool) -> None:
    """Record a failed attempt.

    `holds_all` delays the other periods of the schedule too.
    """

    def work(tx: Transaction) -> None:
        _insert_attempt(tx, attempt)
        tx.execute(
            "UPDATE export_periods SET holds_all = ?, error = ? WHERE schedule_id = ? AND period = ?",
            (int(holds_all), attempt.result, attempt.schedule_id, attempt.period),
        )

    app_db.write(work)


def mark_delivered(app_db: Database, attempt: DeliveryAttempt) -> None:
    """Record a successful attempt.

    After an incomplete file the period stays open for the complete one.
    """
    is_complete = attempt.state != "incomplete"

    def work(tx: Transaction) -> None:
        _insert_attempt(tx, attempt)
        audit.record(
            tx,
            f"schedule {attempt.name}",
            "export",
            attempt.file,
            f"{attempt.rows} rows, {attempt.result}" if attempt.rows is not None else attempt.result,
        )
        tx.execute(
            "INSERT INTO export_periods (schedule_id, period, state, partial_at)"
            " SELECT id, ?, ?, ? FROM export_schedules WHERE id = ? ON CONFLICT DO UPDATE SET"
            " state = excluded.state, partial_at = coalesce(excluded.partial_at, partial_at), error = NULL,"
            " next_at = NULL, tries = 0, holds_all = 0, at_once = 0, waits_for = NULL",
            (
                attempt.period,
                "delivered" if is_complete else "open",
                None if is_complete else attempt.at,
                attempt.schedule_id,
            ),
        )

    app_db.write(work)


def mark_skipped(app_db: Database, attempt: DeliveryAttempt, since: str) -> None:
    """Skip this period and all earlier open ones.

    The schedule ignores periods due until `since`.
    """

    def work(tx: Transaction) -> None:
        _insert_attempt(tx, attempt)
        tx.execute(
            "INSERT INTO export_periods (schedule_id, period, state)"
            " SELECT id, ?, 'open' FROM export_schedules WHERE id = ? ON CONFLICT DO NOTHING",
            (attempt.period, attempt.schedule_id),
        )
        # Period keys of one schedule sort chronologically.
        tx.execute(
            "UPDATE export_periods SET state = 'skipped', error = NULL"
            " WHERE schedule_id = ? AND state = 'open' AND period <= ?",
            (attempt.schedule_id, attempt.period),
        )
        tx.execute(
            "UPDATE export_schedules SET since = max(since, ?) WHERE id = ?", (since, attempt.schedule_id)
        )

    app_db.write(work)


def count_before(connection: sqlite3.Connection, before: str) -> int:
    """Count the rows that `delete_before` deletes."""
    sql = "SELECT count(*) FROM export_attempts WHERE at < ?"
    return int(connection.execute(sql, (before,)).fetchone()[0])


def delete_before(tx: Transaction, before: str) -> int:
    """Delete attempts older than `before` (UTC text). Returns their number."""
    return tx.execute("DELETE FROM export_attempts WHERE at < ?", (before,)).rowcount


def _insert_attempt(tx: Transaction, attempt: DeliveryAttempt) -> None:
    tx.execute(
        "INSERT INTO export_attempts (schedule_id, name, period, at, file, rows, bytes, state, result)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        astuple(attempt),
    )
