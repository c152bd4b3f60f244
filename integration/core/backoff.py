"""Back-off: growing delays after consecutive failures."""

from __future__ import annotations

import random
from collections.abc import Sequence

from integration.core import clock

NO_JITTER = (1.0, 1.0)
"""Range of the random factor that leaves delays unchanged."""


def delay(
    attempt: int,
    delays: Sequence[float],
    *,
    jitter: tuple[float, float] = NO_JITTER,
    at_least: float = 0.0,
) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (≥ 1).

    `delays`: seconds by attempt; further attempts use the last one. `jitter`: the range of a random factor.
    `at_least`: minimum seconds, as requested by the other side.
    """
    return max(delays[min(attempt, len(delays)) - 1] * random.uniform(*jitter), at_least)


def doubling(first: float, longest: float) -> list[float]:
    """Return delays that double from `first` seconds up to `longest`."""
    delays = [min(first, longest)]
    while delays[-1] < longest:
        delays.append(min(2 * delays[-1], longest))
    return delays


class Backoff:
    """Delay of one repeated operation.

    Not thread-safe: the owner must hold a lock.
    """

    def __init__(self, delays: Sequence[float], *, jitter: tuple[float, float] = NO_JITTER) -> None:
        self.failures = 0
        self._delays = delays
        self._jitter = jitter
        self._ends_at = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the end of the pause; 0.0 without a pause."""
        return max(0.0, self._ends_at - clock.monotonic())

    def failed(self, at_least: float = 0.0) -> float:
        """Count a failure, start a pause and return its seconds."""
        self.failures += 1
        seconds = delay(self.failures, self._delays, jitter=self._jitter, at_least=at_least)
        self.pause(seconds)
        return seconds

    def pause(self, seconds: float) -> None:
        """Pause for `seconds`; the failure count is unchanged."""
        self._ends_at = clock.monotonic() + seconds

    def succeeded(self) -> None:
        """End the pause and reset the failure count."""
        self.failures = 0
        self._ends_at = 0.0
