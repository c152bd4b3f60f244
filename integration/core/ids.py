"""Identifiers of the platform."""

from __future__ import annotations

import re

from integration.core import clock

_EVENT_ID = re.compile(r"([^.]+)\.([0-9a-f]{8})([0-9a-f]{5})\d?(?:\.\d+)?", re.IGNORECASE)
_MICROS_PER_SECOND = 1_000_000
_MAX_DISTANCE = 1
"""Seconds between an event id and its `event_time` up to which its microseconds count (calls.md)."""


def event_clock(event_id: str, at: str) -> tuple[str | None, int | None]:
    """Server name and microseconds after `at` of an event id.

    `event_id`: `uk003.608920d55f7ac3.77053295`: server, 8 hex digits of Unix seconds, 5 of microseconds.
    `at`: `event_time`, 'YYYY-MM-DD HH:MM:SS' in UTC.
    The microseconds range from -1,000,000 to 1,999,999, because the id can precede or follow `event_time`
    by 1 s. They are None for a larger distance. Both values are None for any other id or time.
    See observed.md §1.2.
    """
    match, moment = _EVENT_ID.fullmatch(event_id), clock.parse_utc(at)
    if match is None or moment is None:
        return None, None
    server, seconds, micros = match.groups()
    return server, _micros_after(int(moment.timestamp()), int(seconds, 16), int(micros, 16))


def _micros_after(moment: int, seconds: int, micros: int) -> int | None:
    distance = seconds - moment
    if abs(distance) > _MAX_DISTANCE or micros >= _MICROS_PER_SECOND:
        return None
    return distance * _MICROS_PER_SECOND + micros
