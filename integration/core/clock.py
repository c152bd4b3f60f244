"""System clocks and UTC text.

Every module reads the time here, so tests can replace the clock in one place. Internal times are UTC. Text is
'YYYY-MM-DD HH:MM:SS', the form of the platform (specification, Response envelopes); its text order is its
time order.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from zoneinfo import ZoneInfo


def now() -> datetime:
    """Return the current time as an aware datetime in UTC."""
    return datetime.fromtimestamp(unix(), UTC)


def unix() -> float:
    """Return the current time in Unix seconds."""
    return time.time()


def monotonic() -> float:
    """Return seconds of the monotonic clock, for durations and deadlines.

    The clock stops while the machine is suspended.
    """
    return time.monotonic()


def thread_cpu() -> float:
    """Return CPU seconds of this thread, for limits on its work.

    Waiting for a disk, a lock or other threads does not count.
    """
    return time.thread_time()


def suspended_seconds() -> float:
    """Return the seconds of suspension since boot; 0.0 except on Linux."""
    if sys.platform != "linux":
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def utc_text(moment: datetime | float | None = None) -> str:
    """Format a time as 'YYYY-MM-DD HH:MM:SS' in UTC.

    `moment`: aware datetime or Unix seconds; None for the current time.
    """
    if moment is None:
        moment = now()
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "seconds")


def midnight(day: date, zone: ZoneInfo) -> str:
    """Return the UTC text of the beginning of `day` in `zone`."""
    return utc_text(datetime.combine(day, time_of_day(), zone))


def add_zone(text: str, zone_name: str) -> str:
    """Return a text with the name of its zone: 'Started (Europe/London)'.

    A name with brackets, as that of the demo, gets a comma: 'Started, London (demo time)'.
    """
    return f"{text}, {zone_name}" if "(" in zone_name else f"{text} ({zone_name})"


def iterate_days(first: date, last: date) -> Iterator[date]:
    """Yield the days from `first` to `last`, both included."""
    return (first + timedelta(days=offset) for offset in range((last - first).days + 1))


def merge_days(days: Iterable[date]) -> Iterator[tuple[date, date]]:
    """Merge consecutive days to ranges (first, last)."""
    begin = end = None
    for day in sorted(days):
        if end is not None and begin is not None and day - end > timedelta(days=1):
            yield begin, end
            begin = day
        begin, end = begin or day, day
    if begin is not None and end is not None:
        yield begin, end


def to_zone(moment: datetime | None, zone: ZoneInfo) -> datetime | None:
    """Convert a time to `zone`; None for None and for years outside 1 to 9999 in `zone`."""
    try:
        return None if moment is None else moment.astimezone(zone)
    except OverflowError:
        return None


_HOUR = r"([01]\d|2[0-3])"
_TIME_PATTERN = re.compile(
    rf"\d{{4}}-\d{{2}}-\d{{2}}([ T]{_HOUR}:\d{{2}}(:\d{{2}}(\.\d{{1,9}})?)?( ?(Z|[+-]\d{{2}}:?\d{{2}}))?)?"
    rf"|\d{{8}}T{_HOUR}\d{{4}}(\.\d{{1,9}})?(Z|[+-]\d{{4}})?",
    re.ASCII,
)


def parse_utc(text: object) -> datetime | None:
    """Parse 'YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD' as UTC, in seconds; None for anything else.

    Also accepts 'T', no seconds, fractions of a second, which are dropped, 'Z' or another offset, the basic
    form '20261125T100600Z', lower case and blanks around the time and before the offset.

    Rejected: Unix seconds, because ten digits are also a telephone number.
    """
    if not isinstance(text, str):
        return None
    text = text.strip().upper()
    if not _TIME_PATTERN.fullmatch(text):
        return None
    text = text[:11] + text[11:].replace(" ", "")
    try:
        # strptime would need no pattern, but takes ten times as long.
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.replace(microsecond=0)
