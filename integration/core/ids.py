"""Ids of records and events of the platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import orjson

from integration.core import clock

MAX_ID = 2**63 - 1
"""Largest integer of an SQLite column."""
MIN_ID = -MAX_ID - 1
"""Smallest integer of an SQLite column."""
_DECIMAL = re.compile("-?[0-9]{1,19}")

_EVENT_ID = re.compile(r"([^.]+)\.([0-9a-f]{8})([0-9a-f]{5})\d?(?:\.\d+)?", re.IGNORECASE)
_MICROS_PER_SECOND = 1_000_000
_MAX_DISTANCE = 1
"""Maximum seconds between an event id and its `event_time`.

See docs/calls.md#state-of-a-leg.
"""


def as_id(value: object) -> int | None:
    """Convert a JSON value to a 64-bit integer, None if not integral.

    Integral numbers and decimal text are accepted. Negative integers are accepted, because collections accept
    them as keys. Returns None for other values, such as booleans, digits outside ASCII and text with white
    space.
    """
    if isinstance(value, str):
        value = int(value) if _DECIMAL.fullmatch(value) else None
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and MIN_ID <= value <= MAX_ID:
        return value
    return None


def parse_id(text: str | None) -> int | None:
    """Parse the id in a URL or form; None for other text.

    An id has 1 to 19 ASCII digits and is at most `MAX_ID`.
    """
    return None if text is None or text.startswith("-") else as_id(text)


def id_list(ids: Iterable[int | str]) -> str:
    """Return `ids` as JSON for `IN (SELECT value FROM json_each(?))`."""
    values = list(ids)
    try:
        return orjson.dumps(values).decode()
    except orjson.JSONEncodeError:  # A number beyond 64 bits or a lone surrogate.
        return json.dumps(values)


def event_clock(event_id: str, at: str) -> tuple[str | None, int | None]:
    """Return server name and microseconds after `at` of an event id.

    `event_id`: `uk003.608920d55f7ac3.77053295`: server, 8 hex digits of Unix seconds, 5 of microseconds.
    `at`: `event_time`, 'YYYY-MM-DD HH:MM:SS' in UTC.
    The microseconds range from -1,000,000 to 1,999,999, because the id can precede or follow `event_time`
    by 1 s. They are None for a larger distance. Both values are None for any other id or time.
    See docs/platform.md#10-event-fields.
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
