"""Where every schedule stands, for people: on the dashboard and on the command line."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from integration.core import clock
from integration.exports import deliveries as export_deliveries
from integration.exports import export_request as asking
from integration.exports import schedule_runner as owing
from integration.exports import schedule_table as export_schedules
from integration.exports.deliveries import Attempt
from integration.exports.export_request import NoSuchExport
from integration.exports.schedule_table import Schedule

EVERY = {"day": "every day", "week": "every week, on Monday", "month": "every month, on the 1st"}
LOG_LINES = 100


@dataclass(frozen=True, slots=True)
class Line:
    """`about` says why it fails or waits; `next_at` is when the next delivery is due (UTC text); `last` the
    newest attempt that was delivered."""

    schedule: Schedule
    title: str
    state: Literal["paused", "failing", "waiting", "ok"]
    about: str
    next_at: str
    last: Attempt | None


def lines(house: sqlite3.Connection, now: datetime) -> list[Line]:
    """All schedules, by name."""
    return [line(house, one, now) for one in export_schedules.everything(house)]


def line(house: sqlite3.Connection, schedule: Schedule, now: datetime) -> Line:
    owed = [one.standing for one in owing.owed(house, schedule, now)]
    wrong = next((one.error for one in owed if one.error), None)
    waits = next((f"{one.period} waits: {one.waits_for}" for one in owed if one.waits_for), None)
    state: Literal["paused", "failing", "waiting", "ok"] = "ok"
    if schedule.paused_at is not None:
        state = "paused"
    elif wrong is not None:
        state = "failing"
    elif waits is not None:
        state = "waiting"
    log = export_deliveries.attempts(house, schedule.id, LOG_LINES)
    last = next((one for one in log if one.state in ("delivered", "incomplete")), None)
    next_at = clock.stamp(owing.next_due(schedule, now))
    return Line(schedule, title(schedule.export), state, wrong or waits or "", next_at, last)


def title(export: str) -> str:
    """What an export is called; the name itself where nothing has it any more."""
    try:
        chosen, preset = asking.named(export)
    except NoSuchExport:
        return export
    return preset.title if preset else chosen.title
