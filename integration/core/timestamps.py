"""Fast conversion between the platform's text times and Unix seconds.

Bulk loads convert several times per record, and `clock.parse_utc` takes four times as long.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache

from integration.core.clock import parse_utc

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_TWO_DIGITS = tuple(f"{n:02d}" for n in range(60))


def parse_seconds(text: object) -> int | None:
    """Parse 'YYYY-MM-DD HH:MM:SS' or 'YYYY-MM-DD' in UTC to Unix seconds.

    Other forms are those of `clock.parse_utc`. Returns None for anything else.
    """
    if not isinstance(text, str):
        return None
    if len(text) == 19 and text[4] + text[7] + text[10] + text[13] + text[16] == "-- ::":
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // _SECOND
        except ValueError:
            return None
    moment = parse_utc(text)
    return None if moment is None else int(moment.timestamp())


@lru_cache(maxsize=4096)
def _format_day(day_number: int) -> str:
    return date.fromordinal(day_number + 719_163).isoformat()


@lru_cache(maxsize=4096)
def format_timestamp(unix_seconds: float | None) -> str | None:
    """Format Unix seconds as 'YYYY-MM-DD HH:MM:SS' in UTC.

    Returns None for None and for years outside 1 to 9999.
    """
    if unix_seconds is None:
        return None
    day, second_of_day = divmod(int(unix_seconds), 86_400)
    if not -719_162 <= day <= 2_932_896:
        return None
    hour, minute, second = second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60
    return f"{_format_day(day)} {_TWO_DIGITS[hour]}:{_TWO_DIGITS[minute]}:{_TWO_DIGITS[second]}"
