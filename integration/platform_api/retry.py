"""When to ask again: growing gaps with jitter, and never sooner than the platform asked for."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from integration.core import clock
from integration.core.errors import PlatformError
from integration.outbound.exchange import http_date

T = TypeVar("T")

FIRST_GAP = 0.5
LONGEST_GAP = 20.0
LONGEST_RETRY_AFTER = 3600.0


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks to wait (a number or a date), at most an hour."""
    if not value:
        return None
    text = value.strip()
    if text.isdecimal() and len(text) < 10:
        return min(float(text), LONGEST_RETRY_AFTER)
    moment = http_date(text)
    if moment is None:
        return None
    return min(max(0.0, (moment - clock.now()).total_seconds()), LONGEST_RETRY_AFTER)


def gap(failures: int, first: float | None = None, longest: float = LONGEST_GAP) -> float:
    """Seconds to wait after `failures` failures in a row (≥ 1): doubling, with up to half of it as jitter.

    Whole jitter would let a crowd of clients ask at once again; none would keep them in step.
    """
    wait = min(longest, (FIRST_GAP if first is None else first) * 2.0 ** min(failures - 1, 30))
    return wait * random.uniform(0.5, 1.0)


def persist(action: Callable[[], T], *, tries: int, wait: Callable[[float], bool]) -> T:
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
            asked = error.retry_after or 0.0
            if not error.retryable or failures >= tries or asked > LONGEST_GAP:
                raise
            if not wait(max(gap(failures), asked)):
                raise
