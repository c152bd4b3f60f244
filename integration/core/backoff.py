"""Growing pauses after failures in a row."""

from __future__ import annotations

import random
from collections.abc import Sequence

from integration.core import clock

NO_JITTER = (1.0, 1.0)


def delay(
    attempt: int,
    gaps: Sequence[float],
    *,
    jitter: tuple[float, float] = NO_JITTER,
    at_least: float = 0.0,
) -> float:
    """Seconds to wait after the failed `attempt` (≥ 1): its gap, or the last gap if it has none.

    `jitter`: the range of a random factor. `at_least`: seconds that the other side requested.
    """
    return max(gaps[min(attempt, len(gaps)) - 1] * random.uniform(*jitter), at_least)


def doubling(first: float, longest: float) -> list[float]:
    """Gaps that double from `first` seconds up to `longest`."""
    gaps = [min(first, longest)]
    while gaps[-1] < longest:
        gaps.append(min(2 * gaps[-1], longest))
    return gaps


class Backoff:
    """The pause of one thing that can fail. Not thread-safe: the owner's lock guards it."""

    def __init__(self, gaps: Sequence[float], *, jitter: tuple[float, float] = NO_JITTER) -> None:
        self.failures = 0
        self._gaps = gaps
        self._jitter = jitter
        self._ends_at = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the end of the pause; 0 without one."""
        return max(0.0, self._ends_at - clock.monotonic())

    def failed(self, at_least: float = 0.0) -> float:
        """Count a failure and start a pause. Returns its seconds."""
        self.failures += 1
        seconds = delay(self.failures, self._gaps, jitter=self._jitter, at_least=at_least)
        self.pause(seconds)
        return seconds

    def pause(self, seconds: float) -> None:
        """Let the pause end in `seconds`; the count of failures stays."""
        self._ends_at = clock.monotonic() + seconds

    def succeeded(self) -> None:
        """End the pause and start counting again."""
        self.failures = 0
        self._ends_at = 0.0
