"""Circuit breaker: stops background requests while no request to the platform succeeds.

While the circuit is open, single probe requests test the platform. The back-off of each collection
(sync/collection_backoff.py) is not enough: about forty collections would still send requests in turn. A short
disturbance does not open the circuit.
"""

from __future__ import annotations

from integration.core import clock
from integration.core.backoff import Backoff
from integration.core.errors import PlatformUnreachable
from integration.core.retry_delays import PROBES, REQUEST_FACTORS

MIN_FAILURES = 5
"""Consecutive failures before the circuit opens."""
MIN_FAILING_SECONDS = 30.0
"""Seconds from the first of the consecutive failures before the circuit opens."""

PROBE_TIMEOUT_SECONDS = 120.0
"""Seconds after which a probe request without a result counts as lost."""


class CircuitOpen(PlatformUnreachable):
    """No request was sent because the circuit is open."""


class Circuit:
    """State of the circuit breaker.

    Not thread-safe: the lock of its Budget guards it.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._failing_since = 0.0
        self._probe_backoff = Backoff(PROBES, jitter=REQUEST_FACTORS)
        self._is_probing = False
        self.open_since: float | None = None
        """Unix time, in seconds, of the first failure.

        None while the circuit is closed.
        """

    def record_success(self) -> None:
        """Record a successful request and close the circuit."""
        self._failures = 0
        self._probe_backoff.succeeded()
        self._is_probing = False
        self.open_since = None

    def record_failure(self) -> None:
        """Record a failed request.

        Opens the circuit, or delays the next probe after a failed probe.
        """
        if self._failures == 0:
            self._failing_since = clock.monotonic()
        self._failures += 1
        failing_seconds = clock.monotonic() - self._failing_since
        if self._failures < MIN_FAILURES or failing_seconds < MIN_FAILING_SECONDS:
            return
        if self.open_since is None:
            self.open_since = clock.unix() - failing_seconds
        elif not self._is_probing:
            return  # This request started before the circuit opened, so it is not a probe.
        self._is_probing = False
        self._probe_backoff.failed()

    @property
    def seconds_until_probe(self) -> float:
        """Seconds until the next probe; 0 while the circuit is closed."""
        return 0.0 if self.open_since is None else self._probe_backoff.seconds_left

    def admit(self) -> None:
        """Admit a request of the scheduler.

        While the circuit is open, only a due probe is admitted. Raises CircuitOpen for all other requests.
        """
        if self.open_since is None:
            return
        remaining = self.seconds_until_probe
        if remaining > 0:
            raise CircuitOpen(
                f"no request to the platform has succeeded since {clock.utc_text(self.open_since)} UTC; "
                f"next attempt in {remaining:.0f} s"
            )
        self._is_probing = True
        self._probe_backoff.pause(PROBE_TIMEOUT_SECONDS)
