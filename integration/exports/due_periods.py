"""Due periods of export schedules, and the completeness of their records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from integration.access import visibility
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.exports import delivery_states, export_request
from integration.exports.calendar_periods import Period, find_period, iter_ended
from integration.exports.delivery_states import DeliveryAttempt, PeriodState
from integration.exports.export_request import UnknownExport
from integration.exports.schedules import Schedule
from integration.mirror.calls.schema import CALLS
from integration.mirror.sync_state import completeness

MAX_PERIODS = 31
"""Largest number of overdue periods that are delivered. Older ones are skipped and logged."""


FIRST_RECORDS = datetime(2000, 1, 1, tzinfo=UTC)
"""Time before all records of the platform."""


@dataclass(frozen=True, slots=True)
class DuePeriod:
    """A period of a schedule and its delivery state."""

    schedule: Schedule
    period: Period
    delivery_state: PeriodState

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        return self.period.bounds(ZoneInfo(self.schedule.zone))

    @property
    def due_at(self) -> datetime:
        return self.period.due_at(time.fromisoformat(self.schedule.at), ZoneInfo(self.schedule.zone))

    @property
    def wait_until(self) -> datetime:
        """UTC time until which the schedule waits for missing records."""
        return self.due_at + timedelta(hours=self.schedule.wait_hours)

    def file_name(self, *, complete: bool) -> str:
        """Return the file name. It depends on schedule and period only.

        For files by month it is the name of their folder.
        """
        if self.schedule.is_by_month:
            return f"{self.schedule.file}/"
        return (
            f"{self.schedule.file}-{self.period.key}{'' if complete else '-incomplete'}.{self.schedule.form}"
        )

    def make_attempt(
        self,
        started_at: datetime,
        state: str,
        result: str,
        *,
        file: str = "",
        rows: int | None = None,
        size: int | None = None,
    ) -> DeliveryAttempt:
        return DeliveryAttempt(
            self.schedule.id,
            self.schedule.name,
            self.period.key,
            clock.utc_text(started_at),
            file,
            rows,
            size,
            state,
            result,
        )

    def find_incomplete_reason(self, connection: sqlite3.Connection) -> str | None:
        """Return why the mirror's records of this period are incomplete.

        Returns None if they are complete.
        """
        target, _ = export_request.find_export(self.schedule.export)
        since, until = self.bounds
        if not has_period_records(target):
            return completeness.explain_unread(connection, visibility.required_resource(target), until)
        return _explain_incomplete(
            connection, target, FIRST_RECORDS if self.schedule.is_by_month else since, until
        )

    def find_incomplete_months(self, connection: sqlite3.Connection, months: Iterable[str]) -> list[str]:
        """Return those of `months` (UTC) with incomplete records.

        Records after the end of the period do not count. Records without a date have no counts that could
        be compared, so the month 'undated' is one of them.
        """
        target, _ = export_request.find_export(self.schedule.export)
        incomplete_months = []
        for month in months:
            begin = clock.parse_utc(f"{month}-01 00:00:00")
            if begin is not None:
                end = min(find_period("month", begin.date()).bounds(ZoneInfo("UTC"))[1], self.bounds[1])
                if _explain_incomplete(connection, target, begin, end) is None:
                    continue
            incomplete_months.append(month)
        return incomplete_months


def _explain_incomplete(
    connection: sqlite3.Connection, target: Resource, since: datetime, until: datetime
) -> str | None:
    """Return why the records dated in `[since, until)` are incomplete, or None."""
    reason = completeness.explain_gaps(connection, visibility.required_resource(target), since, until)
    if reason is None and target is CALLS:
        return completeness.explain_unfinished_calls(connection, since, until)
    return reason


def list_due(connection: sqlite3.Connection, schedule: Schedule, now: datetime) -> list[DuePeriod]:
    """Return the open periods that were due by `now`, oldest first.

    These are the periods due since the schedule's `since`, and those whose redelivery a user requested.
    """
    states = delivery_states.load_period_states(connection, schedule.id)
    due_periods = []
    # A user may request the period that ended last before its delivery is due.
    for period in dict.fromkeys(
        (find_last_ended(schedule, now), *islice(_iter_ended(schedule, now), _max_periods(schedule)))
    ):
        due_period = DuePeriod(schedule, period, states.get(period.key, PeriodState(period.key)))
        is_started = period.key in states or clock.utc_text(due_period.due_at) > schedule.since
        is_requested = due_period.delivery_state.at_once or (is_started and due_period.due_at <= now)
        if is_requested and due_period.delivery_state.state == "open":
            due_periods.append(due_period)
    return due_periods[::-1]


def find_abandoned(
    connection: sqlite3.Connection, schedule: Schedule, now: datetime
) -> tuple[DuePeriod, str] | None:
    """Return the newest period too old for delivery, and the reason.

    None if no open period is too old. Of settings only the last period can be delivered, because the mirror
    has no earlier state of them.
    """
    max_periods = _max_periods(schedule)
    period = next(islice(_iter_ended(schedule, now), max_periods, None))
    delivery_state = delivery_states.load_period_states(connection, schedule.id).get(
        period.key, PeriodState(period.key)
    )
    due_period = DuePeriod(schedule, period, delivery_state)
    if delivery_state.state != "open" or clock.utc_text(due_period.due_at) <= schedule.since:
        return None
    if schedule.is_by_month:
        return due_period, "Skipped: the next delivery updates all months."
    if max_periods == 1:
        return due_period, "Skipped: settings can only be exported in their present state."
    return due_period, f"Skipped with all earlier periods: more than {max_periods} periods are overdue."


def find_last_ended(schedule: Schedule, now: datetime) -> Period:
    """Return the last period that ended.

    Its delivery may not be due yet.
    """
    zone = ZoneInfo(schedule.zone)
    return find_period(schedule.every, now.astimezone(zone).date()).previous


def find_next_due(schedule: Schedule, now: datetime) -> DuePeriod:
    """Return the period of the first delivery due after `now`."""
    zone, time_of_day = ZoneInfo(schedule.zone), time.fromisoformat(schedule.at)
    period = find_last_ended(schedule, now)
    while period.due_at(time_of_day, zone) <= now:
        period = find_period(schedule.every, period.end_day)
    return DuePeriod(schedule, period, PeriodState(period.key))


def has_period_records(target: Resource) -> bool:
    """Return whether records belong to periods.

    Settings do not; exports contain all of them.
    """
    return visibility.required_resource(target).history


def _max_periods(schedule: Schedule) -> int:
    if schedule.is_by_month:
        return 1
    try:
        return MAX_PERIODS if has_period_records(export_request.find_export(schedule.export)[0]) else 1
    except UnknownExport:
        # The delivery attempt reports this error.
        return MAX_PERIODS


def _iter_ended(schedule: Schedule, now: datetime) -> Iterator[Period]:
    return iter_ended(schedule.every, time.fromisoformat(schedule.at), ZoneInfo(schedule.zone), now)
