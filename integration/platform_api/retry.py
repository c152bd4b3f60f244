"""Retries: growing delays with jitter, at least as long as `Retry-After`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from integration.core import backoff, clock, retry_delays
from integration.core.errors import PlatformError, UnusableBody
from integration.outbound.exchange import parse_http_date

T = TypeVar("T")

UNUSABLE_BODY_TRIES = 4
"""Attempts of a request whose responses have unusable bodies, the first included."""
MAX_RETRY_AFTER = 600.0
"""Longest wait in seconds that a `Retry-After` header can cause.

A wrong value, such as a year, would otherwise stop all syncs.
"""


def parse_retry_after(value: str | None) -> float | None:
    """Parse a `Retry-After` header (number or date) into seconds.

    The result is from 0 to MAX_RETRY_AFTER. Returns None for a missing or invalid header.
    """
    if not value:
        return None
    text = value.strip()
    if text.isdecimal():
        return min(float(text), MAX_RETRY_AFTER)
    moment = parse_http_date(text)
    if moment is None:
        return None
    return min(max(0.0, (moment - clock.now()).total_seconds()), MAX_RETRY_AFTER)


def call_with_retries(
    action: Callable[[], T], *, tries: int, wait: Callable[[float], bool], seconds: float = float("inf")
) -> T:
    """Call `action` until it succeeds.

    At most `tries` attempts, after retryable errors only. After an UnusableBody there are UNUSABLE_BODY_TRIES
    attempts, unless `seconds` have passed since the first one began. `wait(seconds)` waits and returns False
    to stop retrying. With a `Retry-After` longer than MAX_REQUEST_DELAY the error is raised at once; the
    caller reads the delay from its `retry_after`.
    """
    failures, deadline = 0, clock.monotonic() + seconds
    while True:
        try:
            return action()
        except PlatformError as error:
            failures += 1
            requested_delay = error.retry_after or 0.0
            allowed_tries = tries
            if isinstance(error, UnusableBody) and clock.monotonic() < deadline:
                allowed_tries = max(tries, UNUSABLE_BODY_TRIES)
            is_too_long = requested_delay > retry_delays.MAX_REQUEST_DELAY
            if not error.retryable or failures >= allowed_tries or is_too_long:
                raise
            delays, factors = retry_delays.REQUESTS, retry_delays.REQUEST_FACTORS
            if not wait(backoff.delay(failures, delays, jitter=factors, at_least=requested_delay)):
                raise
