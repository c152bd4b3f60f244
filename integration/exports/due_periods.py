"""The days, weeks and months of schedules, as the clock on the wall of a zone has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

Every = Literal["day", "week", "month"]
EVERY: tuple[Every, ...] = get_args(Every)

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """From the midnight of `first` to that of `beyond`. `key` names it for good: '2026-11-19', '2026-W47' (an
    ISO week, Monday to Sunday) or '2026-11'."""

    every: Every
    key: str
    first: date
    beyond: date

    def bounds(self, zone: ZoneInfo) -> tuple[datetime, datetime]:
        """Its first moment and the first one after it, in UTC."""
        return _moment(self.first, time(), zone), _moment(self.beyond, time(), zone)

    def due_at(self, at: time, zone: ZoneInfo) -> datetime:
        """When it is to be delivered, in UTC: at `at` of the day after it."""
        return _moment(self.beyond, at, zone)

    @property
    def before(self) -> Period:
        return holding(self.every, self.first - _DAY)

    @property
    def words(self) -> str:
        """'19 November 2026', '16 to 22 November 2026', 'November 2026'."""
        last = self.beyond - _DAY
        if self.every == "month":
            return f"{self.first:%B %Y}"
        if self.every == "day":
            return f"{last.day} {last:%B %Y}"
        return f"{self.first.day} {self.first:%B} to {last.day} {last:%B %Y}"


def holding(every: Every, day: date) -> Period:
    """The period that `day` is in."""
    if every == "day":
        return Period(every, day.isoformat(), day, day + _DAY)
    if every == "week":
        year, week, weekday = day.isocalendar()
        first = day - timedelta(days=weekday - 1)
        return Period(every, f"{year}-W{week:02d}", first, first + 7 * _DAY)
    first = day.replace(day=1)
    return Period(every, f"{first:%Y-%m}", first, (first + 31 * _DAY).replace(day=1))


def ended(every: Every, at: time, zone: ZoneInfo, now: datetime) -> Iterator[Period]:
    """The periods whose delivery was due by `now`, the newest first, without end."""
    period = holding(every, now.astimezone(zone).date())
    while True:
        if period.due_at(at, zone) <= now:
            yield period
        period = period.before


def _moment(day: date, at: time, zone: ZoneInfo) -> datetime:
    # fold=0: of an hour that comes twice the first; one that is left out counts from the offset before, so
    # that 2:30 is the moment at which the clocks show 3:30.
    return datetime.combine(day, at, zone).astimezone(UTC)
