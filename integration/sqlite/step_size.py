"""Size of the steps of bulk jobs, by measured time.

Records of one collection take several times as long as those of another, and a busy machine takes several
times as long as a quiet one. So a number of records alone does not bound the wait of webhooks and users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from integration.core import clock

STEP_SECONDS = 0.035
"""Seconds that a step should take; 50 ms is the limit, and steps of one size differ."""

LEAST_SHARE = 10
"""The smallest step has the largest size divided by this number.

Each step repeats some work: 20 legs take a sixth of the CPU time of 200.
"""


class StepSize:
    """Number of elements of the next step of one kind of work.

    The first step has `largest` elements.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._least = max(1, largest // LEAST_SHARE)
        self.value = largest

    @contextmanager
    def measure(self, count: int) -> Iterator[None]:
        """Measure a step with `count` elements; set the next size.

        A size at most doubles, because steps of few elements say little about larger ones.
        """
        started_at = clock.monotonic()
        yield
        seconds = clock.monotonic() - started_at
        fitting = int(count * STEP_SECONDS / seconds) if seconds > 0 else self._largest
        if fitting < self.value or count >= self.value:
            self.value = max(self._least, min(fitting, 2 * self.value, self._largest))
