"""Whether the platform's host answers at all: while nothing does, one request now and then finds out.

Each collection rests by itself when it fails (sync/backoff.py); some forty of them would still knock on a
closed door by turns. A short disturbance opens nothing.
"""

from __future__ import annotations

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.platform_api.retry import gap

FAILURES = 5
FAILING_SECONDS = 30.0
"""It opens after so many failures in a row over at least so long."""

FIRST_GAP, LONGEST_GAP = 10.0, 60.0
"""Seconds between requests that find out, growing."""

PROBE_SECONDS = 120.0
"""After so long without an outcome, a request that finds out counts as lost."""


class Resting(PlatformUnreachable):
    """The request was not made: nothing worked of late, and it is not yet time to ask again."""


class Circuit:
    """Not thread-safe: its owner's lock guards it (budget.py)."""

    def __init__(self) -> None:
        self._failures = 0
        self._gaps = 0
        self._failing_since = 0.0
        self._again_at = 0.0
        self._finding_out = False
        self.open_since: float | None = None
        """Unix seconds; None while it is closed."""

    def worked(self) -> None:
        """A good answer: all may ask again."""
        self._failures = self._gaps = 0
        self._finding_out = False
        self.open_since = None

    def failed(self) -> None:
        """The platform was in trouble."""
        if self._failures == 0:
            self._failing_since = clock.monotonic()
        self._failures += 1
        failing = clock.monotonic() - self._failing_since
        if self._failures < FAILURES or failing < FAILING_SECONDS:
            return
        if self.open_since is None:
            self.open_since = clock.unix() - failing
        elif not self._finding_out:
            return  # It was under way when the circuit opened.
        self._finding_out = False
        self._gaps += 1
        self._again_at = clock.monotonic() + gap(self._gaps, FIRST_GAP, LONGEST_GAP)

    @property
    def seconds_left(self) -> float:
        """Until the next request that finds out; 0 while it is closed."""
        return 0.0 if self.open_since is None else max(0.0, self._again_at - clock.monotonic())

    def admit(self) -> None:
        """Let a request of the scheduler's pass, one at a time while it is open. Raises Resting."""
        if self.open_since is None:
            return
        left = self.seconds_left
        if left > 0:
            raise Resting(
                f"nothing has worked since {clock.stamp(self.open_since)} UTC; asked again in {left:.0f} s"
            )
        self._finding_out = True
        self._again_at = clock.monotonic() + PROBE_SECONDS
