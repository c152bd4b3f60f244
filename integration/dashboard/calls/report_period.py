"""Period of a report, and the period with which it is compared."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from urllib.parse import quote_plus, urlencode
from zoneinfo import ZoneInfo

from flask import request

from integration.context import app_context
from integration.core import clock
from integration.core.calendar_periods import (
    CALENDAR_RANGES,
    RANGES,
    describe_days,
    find_days_before,
    find_days_last_year,
    find_period,
    find_range_days,
)
from integration.dashboard.site import formats
from integration.mirror.calls import backlog
from integration.mirror.derived import report_sums
from integration.mirror.page_queries import missed_calls, reports
from integration.mirror.page_queries.call_view import PARAMETERS, parse_day
from integration.mirror.page_queries.missed_calls import CountingRules, MissedSums
from integration.mirror.page_queries.reports import ReportSums, Span

DEFAULT_RANGE = "week"
OFFERED_RANGES = ("today", "yesterday", *CALENDAR_RANGES, "week", "month", "quarter", "year")
"""Ranges above reports."""
READ_SECONDS = 10.0
"""Seconds after which the queries of a report are cancelled."""
FEW_CALLS = 20
"""Calls below which a report states counts and no percentages."""
MAX_RANGE = timedelta(days=3660)
"""Maximum time between the first and the last day of a custom range."""
COMPARISONS = {"previous": "Previous period", "last-year": "Same period last year"}
"""Periods to compare with, by `compare` in URLs. Other days have `compare_from` and `compare_to`."""

_quote_cached = lru_cache(4096)(quote_plus)
"""Cached, because the page of a year has 700 links with few distinct values."""


@dataclass(frozen=True, slots=True)
class Period:
    """Days of the display zone from `first` to `last`, both included.

    `name` is a key of RANGES, of COMPARISONS or 'custom'. `clock` ('HH:MM') ends the last day at this time.
    `open_only` excludes calls outside opening hours.
    """

    name: str
    first: date
    last: date
    clock: str | None = None
    open_only: bool = False

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def label(self) -> str:
        return describe_days(self.first, self.last)

    def describe_beside(self, period: Period) -> str:
        """Return the days beside `period`: 'October 2025', '13–19 Nov', '13–19 Nov 2025'."""
        month = find_period("month", self.first)
        if (self.first, self.last + timedelta(days=1)) == (month.first_day, month.end_day):
            return month.label
        if self.first.year != self.last.year:
            return self.label
        is_one_month = (self.first.year, self.first.month) == (self.last.year, self.last.month)
        begin = f"{self.first.day}" if is_one_month else f"{self.first.day} {self.first:%b}"
        end = f"{self.last.day} {self.last:%b}"
        if self.last.year != period.last.year:
            end += f" {self.last.year}"
        return end if self.days == 1 else f"{begin}–{end}"

    @property
    def title(self) -> str:
        """Name of the range, otherwise the days."""
        return RANGES.get(self.name, self.label)

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of pages of the same period."""
        days = (
            {"range": self.name} if self.name in RANGES else {"from": str(self.first), "to": str(self.last)}
        )
        return {**days, "open": "1"} if self.open_only else days

    @property
    def compare_parameters(self) -> dict[str, str]:
        """Parameters of pages that are compared with this period."""
        if self.name in COMPARISONS:
            return {} if self.name == "previous" else {"compare": self.name}
        return {"compare_from": str(self.first), "compare_to": str(self.last)}

    def span(self, zone: ZoneInfo, service_level_seconds: int) -> Span:
        until = clock.midnight(self.last + timedelta(days=1), zone)
        if self.clock is not None:
            moment = datetime.combine(self.last, datetime.strptime(self.clock, "%H:%M").time(), zone)
            until = clock.utc_text(moment)
        return Span(clock.midnight(self.first, zone), until, service_level_seconds, self.open_only)

    def calls_url(self, **filters: object) -> str:
        """Return the URL of the calls of these days with `filters`.

        The filters `begin` and `end` replace the days.
        """
        last = filters.pop("end", self.last)
        parameters = {
            "from": filters.pop("begin", self.first),
            "to": last,
            "clock": self.clock if last == self.last else None,
            "open": "1" if self.open_only else None,
            **filters,
        }
        items = ((name, parameters[name]) for name in PARAMETERS if parameters.get(name) is not None)
        return "/calls?" + "&".join(f"{name}={_quote_cached(str(value))}" for name, value in items)

    def export_url(self, file_format: str) -> str:
        """Return the export URL of the calls counted in these days."""
        view = self.calls_url(direction="external").partition("?")[2]
        style = urlencode(formats.export_style())
        return f"/exports/call-history.{file_format}?view={_quote_cached(view)}&{style}"

    def find_compared(self, args: Mapping[str, str], now: datetime) -> Period:
        """Return the period with which this one is compared, from the parameters of the URL.

        If this period contains `now` (local time), one of COMPARISONS ends at the end of the same minute.
        """
        days = _parse_days(args, "compare_", now.date())
        if days is not None:
            return Period("custom", *days, open_only=self.open_only)
        name = "last-year" if args.get("compare") == "last-year" else "previous"
        find_days = find_days_last_year if name == "last-year" else find_days_before
        compared = Period(name, *find_days(self.first, self.last), open_only=self.open_only)
        minute = now.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
        if self.last != now.date() or minute.date() != now.date():
            return compared
        return replace(compared, clock=f"{minute:%H:%M}")


def parse_period(args: Mapping[str, str], today: date, default: str = DEFAULT_RANGE) -> Period:
    """Parse the period. Missing or invalid parameters mean the range `default`.

    Named ranges end today at the latest.
    """
    days, open_only = _parse_days(args, "", today), args.get("open") == "1"
    if days is not None:
        return Period("custom", *days, open_only=open_only)
    name = args.get("range", default)
    name = name if name in OFFERED_RANGES else default
    range_days = find_range_days(name, today)
    assert range_days is not None
    return Period(name, range_days[0], min(range_days[1], today), open_only=open_only)


def _parse_days(args: Mapping[str, str], prefix: str, today: date) -> tuple[date, date] | None:
    """Return the first and the last day of two parameters, None without both.

    Without a last day the days end `today`.
    """
    first, last = parse_day(args.get(f"{prefix}from")), parse_day(args.get(f"{prefix}to"))
    if not first and not last:
        return None
    first, last = first or last or today, last or today
    first, last = min(first, last), max(first, last)
    return max(first, last - MAX_RANGE), last


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What the address of a report requests: a period, and the period `before` with which it is compared."""

    period: Period
    before: Period
    rules: CountingRules
    now: datetime
    """Current time in the zone of the reports."""

    @property
    def today(self) -> date:
        return self.now.date()

    def span(self, period: Period) -> Span:
        return period.span(self.rules.zone, self.rules.level)


def parse_request(default: str = DEFAULT_RANGE) -> ReportRequest:
    """Parse the address of the current request. Without days its period is the range `default`."""
    rules = app_context().rules.counting
    now = clock.now().astimezone(rules.zone)
    period = parse_period(request.args, now.date(), default)
    return ReportRequest(period, period.find_compared(request.args, now), rules, now)


def read_page_values(
    connection: sqlite3.Connection, requested: ReportRequest, count_before: int, since: str = "~"
) -> dict[str, object]:
    """Return the values that the templates of all reports share.

    `count_before`: calls of the period compared with. `since`: the first time whose calls are shown, if it
    is before that period (UTC text).
    """
    first_day = reports.find_first_day(connection, requested.rules.zone)
    backlog_state = backlog.get_state(connection)
    since = min(since, requested.span(requested.before).since)
    is_waiting = backlog_state is not None and backlog_state.may_contain(since)
    return {
        **describe_comparison(first_day, requested.period, requested.before, count_before),
        "ranges": {name: RANGES[name] for name in OFFERED_RANGES},
        "has_hours": requested.rules.hours.is_entered,
        "today": requested.today,
        "waiting": backlog_state if is_waiting else None,
        "anything": first_day is not None,
    }


def describe_comparison(
    first_day: date | None, period: Period, before: Period, count_before: int
) -> dict[str, object]:
    """Return the values of the templates that show `period` beside `before`.

    `first_day` is the day of the oldest call. A period is not compared with one that begins before that day
    (`history_begins` is then its label), or that has nothing to compare with (`count_before` is 0).
    """
    is_covered = first_day is not None and first_day <= before.first
    return {
        "chosen": period,
        "earlier": before,
        "earlier_days": before.describe_beside(period),
        "comparisons": COMPARISONS,
        "is_compared": is_covered and count_before > 0,
        "history_begins": "" if is_covered or first_day is None else describe_days(first_day, first_day),
    }


def read_sums(
    connection: sqlite3.Connection,
    period: Period,
    rules: CountingRules,
    today: date,
    *,
    with_shares: bool = True,
) -> ReportSums:
    """Return the sums of a period.

    The last day up to its `clock`.
    """
    rules = replace(rules, open_only=period.open_only)
    if period.clock is None:
        return report_sums.read_sums(
            connection, period.first, period.last, rules, today, with_shares=with_shares
        )
    last_day = replace(period, first=period.last).span(rules.zone, rules.level)
    sums = reports.compute_sums(connection, last_day, rules.zone, with_shares=with_shares)
    if period.days > 1:
        day_before = replace(period, last=period.last - timedelta(days=1), clock=None)
        sums.add(read_sums(connection, day_before, rules, today, with_shares=with_shares))
    return sums


def read_missed(
    connection: sqlite3.Connection, period: Period, rules: CountingRules, today: date
) -> MissedSums:
    """Return the missed calls of a period.

    The last day up to its `clock`.
    """
    rules = replace(rules, open_only=period.open_only)
    if period.clock is None:
        return report_sums.read_missed(connection, period.first, period.last, rules, today)
    sums = MissedSums()
    if period.days > 1:
        day_before = period.last - timedelta(days=1)
        sums = report_sums.read_missed(connection, period.first, day_before, rules, today)
    last_day = replace(period, first=period.last).span(rules.zone, rules.level)
    missed_calls.add_missed_calls(sums, connection, last_day.since, last_day.until, rules)
    return sums
