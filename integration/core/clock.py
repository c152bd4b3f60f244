"""The one place that asks what time it is, so that tests can move time in one place.

Times are UTC everywhere inside. As text they are 'YYYY-MM-DD HH:MM:SS', the platform's own form
(specification, Response envelopes), which sorts as it reads.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from zoneinfo import ZoneInfo

UTC_FORMAT = "%Y-%m-%d %H:%M:%S"


def now() -> datetime:
    """The present, timezone-aware, in UTC."""
    return datetime.fromtimestamp(unix(), UTC)


def unix() -> float:
    """The present in Unix seconds."""
    return time.time()


def monotonic() -> float:
    """Seconds that never jump, for durations and deadlines. They stand still while the machine sleeps."""
    return time.monotonic()


def suspended_seconds() -> float:
    """Seconds for which the machine slept since it was started; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def utc_text(moment: datetime | float | None = None) -> str:
    """`moment` (aware datetime, Unix seconds, or now) as 'YYYY-MM-DD HH:MM:SS' in UTC."""
    if moment is None:
        moment = now()
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "seconds")


def midnight(day: date, zone: ZoneInfo) -> str:
    """UTC text of the moment at which `day` begins in `zone`."""
    return utc_text(datetime.combine(day, time_of_day(), zone))


_UTC_PATTERN = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2})?")


def parse_utc(text: object) -> datetime | None:
    """The moment that 'YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD' names, in UTC; None for anything else."""
    if not isinstance(text, str) or not _UTC_PATTERN.fullmatch(text):
        return None
    try:
        # strptime would do without the pattern, but takes ten times as long.
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
