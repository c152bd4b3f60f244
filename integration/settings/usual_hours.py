"""Usual hours of the business: `calls.usual_hours`, such as 'Mon-Fri 08:00-18:00'."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME = r"([01]\d|2[0-3]):[0-5]\d"
_LINE = re.compile(rf"([A-Z][a-z]{{2}})(?:-([A-Z][a-z]{{2}}))? ({_TIME})-({_TIME}|24:00)")


class DayHours(NamedTuple):
    """Hours of one weekday from `begin` until before `end`.

    0 is Monday. Times are 'HH:MM'.
    """

    weekday: int
    begin: str
    end: str


def check_hours(line: str) -> str:
    """Return `line`. Raises ValueError for text that is no days and hours."""
    if not list(_parse_line(line)):
        raise ValueError(f"{line!r} is not days and hours; use 'Mon-Fri 08:00-18:00' or 'Sat 09:00-13:00'")
    return line


def parse_hours(lines: Iterable[str]) -> tuple[DayHours, ...]:
    """Return the hours of each weekday.

    No lines mean that every hour is usual.
    """
    return tuple(sorted({hours for line in lines for hours in _parse_line(line)}))


def _parse_line(line: str) -> Iterable[DayHours]:
    match = _LINE.fullmatch(line)
    if match is None:
        return
    first_name, last_name, begin, end = match[1], match[2] or match[1], match[3], match[5]
    if {first_name, last_name} - set(WEEKDAYS) or begin >= end:
        return
    first, last = WEEKDAYS.index(first_name), WEEKDAYS.index(last_name)
    for day in range(first, last + 1 if last >= first else last + 8):
        yield DayHours(day % 7, begin, end)
