"""Office hours: time zone and expected calls per hour.

The seeded history and the live calls of an office day use the same figures, so that their rates agree.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_WEEKDAY_WEIGHTS = (1.18, 1.1, 1.08, 1.1, 0.98, 0.28, 0.08)
_DAILY_WEIGHTS = (1.18, 1.1, 1.08, 1.1, 0.98, 1.05, 1.0)
"""Weights of an account that is open on Saturdays and Sundays too."""
_HOUR_WEIGHTS = (0, 0, 0, 0, 0, 0, 0.1, 0.6, 3, 6, 7.5, 6.5, 4, 5, 7, 6.5, 5, 3, 1.2, 0.6, 0.3, 0.1, 0, 0)

QUIET_CALLS_PER_WEEK = 392
BUSY_CALLS_PER_WEEK = 3000
"""Calls of a busy office that is closed at weekends: more than one a minute in the morning.

Two or three of twelve users are then on a call. With fewer calls the page Live would often be empty.
"""


@dataclass(frozen=True, slots=True)
class OfficeHours:
    """Time zone, open days and calls per week of an account.

    `is_open_daily`: Saturday and Sunday are working days.
    """

    zone: tzinfo = UTC
    is_open_daily: bool = False
    calls_per_week: int = QUIET_CALLS_PER_WEEK

    @property
    def is_busy(self) -> bool:
        return self.calls_per_week > QUIET_CALLS_PER_WEEK

    def find_day(self, unix_time: float) -> date:
        return datetime.fromtimestamp(unix_time, self.zone).date()

    def find_midnight(self, unix_time: float, days_before: int) -> float:
        """Return the Unix time at which the day `days_before` that of `unix_time` begins."""
        day = self.find_day(unix_time) - timedelta(days_before)
        return datetime.combine(day, time(), self.zone).timestamp()

    def choose_time(self, rng: random.Random, day: date) -> float:
        """Choose a Unix time of `day`, more often in its busy hours."""
        hour = rng.choices(range(24), weights=_HOUR_WEIGHTS)[0]
        return datetime.combine(day, time(hour), self.zone).timestamp() + rng.random() * 3600

    def expect_calls(self, day: date) -> float:
        """Return the expected calls of `day`."""
        weights = self._get_weekday_weights()
        return self.calls_per_week / sum(weights) * weights[day.weekday()]

    def expect_calls_per_hour(self, unix_time: float) -> float:
        """Return the expected calls per hour at `unix_time`."""
        moment = datetime.fromtimestamp(unix_time, self.zone)
        return self.expect_calls(moment.date()) * _HOUR_WEIGHTS[moment.hour] / sum(_HOUR_WEIGHTS)

    def _get_weekday_weights(self) -> tuple[float, ...]:
        return _DAILY_WEIGHTS if self.is_open_daily else _WEEKDAY_WEIGHTS


def make_busy_hours(zone: tzinfo, start: float) -> OfficeHours:
    """Create the hours of a busy office, open on the start day."""
    if datetime.fromtimestamp(start, zone).weekday() < 5:
        return OfficeHours(zone, calls_per_week=BUSY_CALLS_PER_WEEK)
    # A working day has the same number of calls in either case.
    calls_per_week = round(BUSY_CALLS_PER_WEEK * sum(_DAILY_WEIGHTS) / sum(_WEEKDAY_WEIGHTS))
    return OfficeHours(zone, is_open_daily=True, calls_per_week=calls_per_week)


def find_morning_offset(unix_time: float) -> timedelta:
    """Return the offset from UTC, in hours from -11 to 12, with which it is from 09:30 to 10:29."""
    minute_in_utc = int(unix_time // 60) % 1440
    return timedelta(hours=(-((minute_in_utc - 570) // 60) + 11) % 24 - 11)
