"""Calendar periods, named ranges of days, and the period of an export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from integration.core import clock

Frequency = Literal["day", "week", "month"]
FREQUENCIES: tuple[Frequency, ...] = get_args(Frequency)

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)

RANGES: Mapping[str, str] = {
    "today": "Today",
    "yesterday": "Yesterday",
    "this-week": "This week",
    "last-week": "Last week",
    "this-month": "This month",
    "last-month": "Last month",
    "week": "7 days",
    "month": "30 days",
    "quarter": "90 days",
    "year": "365 days",
    "all": "All time",
}
"""Named ranges of days by their value in URLs. Calls, Reports and Exports offer parts of them."""
CALENDAR_RANGES = ("this-week", "last-week", "this-month", "last-month")
_ROLLING_DAYS = {"week": 7, "month": 30, "quarter": 90, "year": 365}
"""Days up to today, by range."""


@dataclass(frozen=True, slots=True)
class Period:
    """The days from `first_day` to the day before `end_day`.

    `key` is the permanent name: '2026-11-19', '2026-W47' (an ISO week, Monday to Sunday) or '2026-11'.
    """

    frequency: Frequency
    key: str
    first_day: date
    end_day: date

    def bounds(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Return the start and the exclusive end, in UTC."""
        return _to_utc(self.first_day, time(), zone), _to_utc(self.end_day, time(), zone)

    def due_at(self, time_of_day: time, zone: ZoneInfo) -> datetime:
        """Return the delivery time in UTC.

        It is `time_of_day` in `zone` on the day after the period.
        """
        return _to_utc(self.end_day, time_of_day, zone)

    @property
    def previous(self) -> Period:
        return find_period(self.frequency, self.first_day - _DAY)

    @property
    def label(self) -> str:
        """Name of the period in words.

        '19 November 2026', '16–22 November 2026' or 'November 2026'.
        """
        if self == find_period("month", self.first_day):
            return f"{self.first_day:%B %Y}"
        return describe_days(self.first_day, self.end_day - _DAY)


def find_period(frequency: Frequency, day: date) -> Period:
    """Return the period that contains `day`."""
    if frequency == "day":
        return Period(frequency, day.isoformat(), day, day + _DAY)
    if frequency == "week":
        year, week, weekday = day.isocalendar()
        first_day = day - timedelta(days=weekday - 1)
        return Period(frequency, f"{year}-W{week:02d}", first_day, first_day + 7 * _DAY)
    first_day = day.replace(day=1)
    return Period(frequency, f"{first_day:%Y-%m}", first_day, (first_day + 31 * _DAY).replace(day=1))


def find_range_days(range_name: str, today: date) -> tuple[date, date] | None:
    """Return first and last day of a named range.

    A calendar range has its later days too. None if the range is unlimited.
    """
    if range_name in CALENDAR_RANGES:
        which, frequency = range_name.split("-")
        period = find_period("week" if frequency == "week" else "month", today)
        period = period.previous if which == "last" else period
        return period.first_day, period.end_day - _DAY
    if range_name == "yesterday":
        return today - _DAY, today - _DAY
    if range_name == "today":
        return today, today
    if range_name in _ROLLING_DAYS:
        return today - timedelta(days=_ROLLING_DAYS[range_name] - 1), today
    return None


def find_days_before(first_day: date, last_day: date) -> tuple[date, date]:
    """Return first and last day of the period before, for comparison.

    The first rule that applies:

    1. A single day: the same weekday one week before.
    2. A calendar week or its beginning: the same weekdays one week before.
    3. A calendar month: the month before. Its beginning: the same days of the month before, at most all.
    4. Otherwise as many days, directly before.
    """
    length = last_day - first_day
    week, month = find_period("week", first_day), find_period("month", first_day)
    if not length or (first_day == week.first_day and last_day < week.end_day):
        return first_day - _WEEK, last_day - _WEEK
    if first_day == month.first_day and last_day < month.end_day:
        before = month.previous
        if last_day == month.end_day - _DAY:
            return before.first_day, before.end_day - _DAY
        return before.first_day, min(before.first_day + length, before.end_day - _DAY)
    return first_day - length - _DAY, first_day - _DAY


def find_days_last_year(first_day: date, last_day: date) -> tuple[date, date]:
    """Return first and last day of the same period one year before, for comparison.

    At most a week: the same weekdays, 52 weeks before. Otherwise the same dates, up to the last of a month.
    """
    if last_day - first_day < _WEEK:
        return first_day - 52 * _WEEK, last_day - 52 * _WEEK
    end_day = last_day + _DAY
    if end_day.day == 1:
        return _shift_year(first_day), _shift_year(end_day) - _DAY
    return _shift_year(first_day), _shift_year(last_day)


def _shift_year(day: date) -> date:
    """Return the same date one year before; 28 February for 29 February."""
    is_leap_day = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year - 1, day=28 if is_leap_day else day.day)


def iter_ended(frequency: Frequency, time_of_day: time, zone: ZoneInfo, now: datetime) -> Iterator[Period]:
    """Yield the periods whose delivery was due by `now`, newest first, endlessly."""
    period = find_period(frequency, now.astimezone(zone).date())
    while True:
        if period.due_at(time_of_day, zone) <= now:
            yield period
        period = period.previous


def _to_utc(day: date, time_of_day: time, zone: ZoneInfo) -> datetime:
    # fold=0: of an hour that occurs twice, the first one. A skipped hour uses the offset before the change:
    # 2:30 is the moment at which clocks show 3:30.
    return datetime.combine(day, time_of_day, zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class ExportPeriod:
    """Period of an export as local times, `until` exclusive. None is unlimited."""

    since: datetime | None
    until: datetime | None

    @property
    def name(self) -> str:
        """Name for a file.

        '2026-10', '2026-W43', '2026-10-05', '2026-10-05-to-2026-10-09' or 'all'.
        """
        first_day, last_day = self._days
        if first_day is None or last_day is None:
            limits = (("from", first_day), ("until", last_day))
            return "-".join(f"{word}-{day}" for word, day in limits if day) or "all"
        if self._has_complete_days and first_day.year < date.max.year:
            for frequency in FREQUENCIES:
                period = find_period(frequency, first_day)
                if (period.first_day, period.end_day) == (first_day, last_day + _DAY):
                    return period.key
        return f"{first_day}-to-{last_day}" if first_day != last_day else str(first_day)

    @property
    def label(self) -> str:
        """Name for users.

        '1–31 October 2026', '5 October 2026', 'from 5 October 2026' or 'all time'.
        """
        first_day, last_day = self._days
        if not self._has_complete_days:
            limits = (("from", self.since), ("until", self.until))
            return " ".join(f"{word} {at:%H:%M} on {_format_day(at.date())}" for word, at in limits if at)
        if first_day is None or last_day is None:
            limits_of_days = (("from", first_day), ("until", last_day))
            return " ".join(f"{word} {_format_day(day)}" for word, day in limits_of_days if day) or "all time"
        if first_day >= last_day:
            return _format_day(first_day)
        if (first_day.year, first_day.month) == (last_day.year, last_day.month):
            return f"{first_day.day}–{_format_day(last_day)}"
        if first_day.year == last_day.year:
            return f"{first_day.day} {first_day:%B} – {_format_day(last_day)}"
        return f"{_format_day(first_day)} – {_format_day(last_day)}"

    @property
    def _days(self) -> tuple[date | None, date | None]:
        """First and last day."""
        last_day = self.until and self.until.date()
        if self.until is not None and self.until.time() == time() and self.until.date() > date.min:
            last_day = self.until.date() - _DAY
        return self.since and self.since.date(), last_day

    @property
    def _has_complete_days(self) -> bool:
        return all(limit is None or limit.time() == time() for limit in (self.since, self.until))


def find_export_period(since: str | None, until: str | None, zone: ZoneInfo) -> ExportPeriod:
    """Return the period between two UTC times (text), in `zone`."""
    return ExportPeriod(*(clock.to_zone(clock.parse_utc(limit), zone) for limit in (since, until)))


def _format_day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def describe_days(first_day: date, last_day: date) -> str:
    """Return the label of complete days: '1–31 October 2026'."""
    midnights = (datetime.combine(day, time()) for day in (first_day, last_day + _DAY))
    return ExportPeriod(*midnights).label
