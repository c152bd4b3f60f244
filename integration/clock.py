"""The one place that asks what time it is, so that tests can move time in one place.

Times are UTC everywhere inside. As text they are 'YYYY-MM-DD HH:MM:SS', the platform's own form
(specification, Response envelopes), which sorts as it reads.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

STAMP = "%Y-%m-%d %H:%M:%S"


def now() -> datetime:
    """The present, timezone-aware, in UTC."""
    return datetime.fromtimestamp(unix(), UTC)


def unix() -> float:
    """The present in Unix seconds."""
    return time.time()


def monotonic() -> float:
    """Seconds that never jump, for durations and deadlines."""
    return time.monotonic()


def stamp(moment: datetime | float | None = None) -> str:
    """`moment` (aware datetime, Unix seconds, or now) as 'YYYY-MM-DD HH:MM:SS' in UTC."""
    if moment is None:
        moment = now()
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime(STAMP)


def parse_stamp(text: object) -> datetime | None:
    """The moment that 'YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD' names, in UTC; None for anything else."""
    if not isinstance(text, str):
        return None
    for form in (STAMP, "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
