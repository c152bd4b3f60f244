"""Whether the platform's host answers at all: while nothing does, one request now and then finds out.

Each collection rests by itself when it fails (sync/collection_backoff.py); some forty of them would still
knock on a closed door by turns. A short disturbance opens nothing.
"""

from __future__ import annotations

from integration.core import clock
from integration.core.backoff import Backoff
from integration.core.errors import PlatformUnreachable
from integration.platform_api.retry import JITTER

MIN_FAILURES = 5
MIN_FAILING_SECONDS = 30.0
"""It opens after so many failures in a row over at least so long."""

PROBE_GAPS = (10.0, 20.0, 40.0, 60.0)
"""Seconds between requests that find out, growing."""

PROBE_TIMEOUT_SECONDS = 120.0
"""After so long without an outcome, a request that finds out counts as lost."""


class CircuitOpen(PlatformUnreachable):
    """The request was not made: nothing worked of late, and it is not yet time to ask again."""


class Circuit:
    """Not thread-safe: its owner's lock guards it (budget.py)."""

    def __init__(self) -> None:
        self._failures = 0
        self._failing_since = 0.0
        self._probe_backoff = Backoff(PROBE_GAPS, jitter=JITTER)
        self._is_probing = False
        self.open_since: float | None = None
        """Unix seconds; None while it is closed."""

    def record_success(self) -> None:
        """A good answer: all may ask again."""
        self._failures = 0
        self._probe_backoff.succeeded()
        self._is_probing = False
        self.open_since = None

    def record_failure(self) -> None:
        """The platform was in trouble."""
        if self._failures == 0:
            self._failing_since = clock.monotonic()
        self._failures += 1
        failing_seconds = clock.monotonic() - self._failing_since
        if self._failures < MIN_FAILURES or failing_seconds < MIN_FAILING_SECONDS:
            return
        if self.open_since is None:
            self.open_since = clock.unix() - failing_seconds
        elif not self._is_probing:
            return  # It was under way when the circuit opened.
        self._is_probing = False
        self._probe_backoff.failed()

    @property
    def seconds_until_probe(self) -> float:
        """Until the next request that finds out; 0 while it is closed."""
        return 0.0 if self.open_since is None else self._probe_backoff.seconds_left

    def admit(self) -> None:
        """Let a request of the scheduler's pass, one at a time while it is open. Raises CircuitOpen."""
        if self.open_since is None:
            return
        remaining = self.seconds_until_probe
        if remaining > 0:
            raise CircuitOpen(
                f"nothing has worked since {clock.utc_text(self.open_since)} UTC; "
                f"asked again in {remaining:.0f} s"
            )
        self._is_probing = True
        self._probe_backoff.pause(PROBE_TIMEOUT_SECONDS)
