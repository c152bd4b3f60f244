"""When to ask again: growing gaps with jitter, and never sooner than the platform asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from integration.core import backoff, clock
from integration.core.errors import PlatformError
from integration.outbound.exchange import parse_http_date

T = TypeVar("T")

MAX_GAP = 20.0
GAPS: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, MAX_GAP)
"""Seconds between the tries of one request."""
JITTER = (0.5, 1.0)
"""Range of the factor of a gap. Down to 0 a crowd of clients would repeat at once; without jitter they would
keep in step."""
MAX_RETRY_AFTER = 3600.0


def parse_retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks to wait (a number or a date), at most an hour."""
    if not value:
        return None
    text = value.strip()
    if text.isdecimal() and len(text) < 10:
        return min(float(text), MAX_RETRY_AFTER)
    moment = parse_http_date(text)
    if moment is None:
        return None
    return min(max(0.0, (moment - clock.now()).total_seconds()), MAX_RETRY_AFTER)


def call_with_retries(action: Callable[[], T], *, tries: int, wait: Callable[[float], bool]) -> T:
    """`action()`, again after a failure that may pass, `tries` times at most.

    `wait(seconds)` waits and says False when there is no use in going on. A Retry-After longer than the
    longest gap is the caller's business: the error is raised at once and carries it.
    """
    failures = 0
    while True:
        try:
            return action()
        except PlatformError as error:
            failures += 1
            requested_delay = error.retry_after or 0.0
            if not error.retryable or failures >= tries or requested_delay > MAX_GAP:
                raise
            if not wait(backoff.delay(failures, GAPS, jitter=JITTER, at_least=requested_delay)):
                raise
