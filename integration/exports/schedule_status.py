"""Status of export schedules, for the dashboard and the command `schedules`."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from integration.catalogue.collection_titles import get_title
from integration.core import clock
from integration.exports import delivery_states, due_periods, export_request, schedules
from integration.exports.delivery_states import DeliveryAttempt
from integration.exports.export_request import UnknownExport
from integration.exports.schedules import Schedule

FREQUENCY_LABELS = {"day": "every day", "week": "every week, on Monday", "month": "every month, on the 1st"}
LOG_LINES = 100
"""Number of delivery attempts searched for the last successful one."""


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """Status of one schedule.

    `about` is the reason for a failure or for waiting. `next_at` is the time of the next delivery (UTC text),
    `last` the newest successful attempt.
    """

    schedule: Schedule
    title: str
    state: Literal["paused", "failing", "waiting", "ok"]
    about: str
    next_at: str
    last: DeliveryAttempt | None


def list_statuses(connection: sqlite3.Connection, now: datetime) -> list[ScheduleStatus]:
    """Return the status of all schedules, sorted by name."""
    return [compute_status(connection, schedule, now) for schedule in schedules.list_all(connection)]


def compute_status(connection: sqlite3.Connection, schedule: Schedule, now: datetime) -> ScheduleStatus:
    due_states = [entry.delivery_state for entry in due_periods.list_due(connection, schedule, now)]
    error = next((entry.error for entry in due_states if entry.error), None)
    waiting_text = next(
        (f"{entry.period} is waiting: {entry.waits_for}" for entry in due_states if entry.waits_for), None
    )
    state: Literal["paused", "failing", "waiting", "ok"] = "ok"
    if schedule.paused_at is not None:
        state = "paused"
    elif error is not None:
        state = "failing"
    elif waiting_text is not None:
        state = "waiting"
    attempts = delivery_states.list_attempts(connection, schedule.id, LOG_LINES)
    last = next((entry for entry in attempts if entry.state in ("delivered", "incomplete")), None)
    next_at = clock.utc_text(due_periods.find_next_due(schedule, now).due_at)
    return ScheduleStatus(
        schedule, export_title(schedule.export), state, error or waiting_text or "", next_at, last
    )


def export_title(export: str) -> str:
    """Return the title of an export.

    Returns its name if the export no longer exists.
    """
    try:
        target, preset = export_request.find_export(export)
    except UnknownExport:
        return export
    return preset.title if preset else get_title(target)
