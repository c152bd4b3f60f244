"""Whether the platform's host answers at all: while nothing does, one request now and then finds out.

Each collection rests by itself when it fails (sync/collection_backoff.py); some forty of them would still
knock on a closed door by turns. A short disturbance opens nothing.
"""

from __future__ import annotations

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.platform_api.retry import compute_delay

MIN_FAILURES = 5
MIN_FAILING_SECONDS = 30.0
"""It opens after so many failures in a row over at least so long."""

FIRST_PROBE_GAP, MAX_PROBE_GAP = 10.0, 60.0
"""Seconds between requests that find out, growing."""

PROBE_TIMEOUT_SECONDS = 120.0
"""After so long without an outcome, a request that finds out counts as lost."""


class CircuitOpen(PlatformUnreachable):
    """The request was not made: nothing worked of late, and it is not yet time to ask again."""


class Circuit:
    """Not thread-safe: its owner's lock guards it (budget.py)."""

    def __init__(self) -> None:
        self._failures = 0
        self._probe_count = 0
        self._failing_since = 0.0
        self._next_probe_at = 0.0
        self._is_probing = False
        self.open_since: float | None = None
        """Unix seconds; None while it is closed."""

    def record_success(self) -> None:
        """A good answer: all may ask again."""
        self._failures = self._probe_count = 0
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
        self._probe_count += 1
        self._next_probe_at = clock.monotonic() + compute_delay(
            self._probe_count, FIRST_PROBE_GAP, MAX_PROBE_GAP
        )

    @property
    def seconds_until_probe(self) -> float:
        """Until the next request that finds out; 0 while it is closed."""
        return 0.0 if self.open_since is None else max(0.0, self._next_probe_at - clock.monotonic())

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
        self._next_probe_at = clock.monotonic() + PROBE_TIMEOUT_SECONDS
