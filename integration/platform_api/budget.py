"""Request budget: slots for concurrent requests and a token bucket.

Requests for users take precedence. They take a token but never wait for one, and with more than one slot the
scheduler leaves one slot free for them. The rate of the scheduler halves with each failure (429, 5xx,
malformed or missing response) and grows with each success. The circuit breaker (circuit.py) stops the
scheduler while no request succeeds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.core.retry_delays import MAX_REQUEST_DELAY
from integration.platform_api.circuit import Circuit

Priority = Literal["people", "background"]
INTERACTIVE: Priority = "people"
BACKGROUND: Priority = "background"
PrioritySource = Priority | Callable[[], Priority]
"""Priority of a request, or a function that returns it if it may rise while the request waits."""

MIN_SHARE = 1 / 64
"""Lowest rate of the scheduler, as a fraction of the full rate."""
SHARE_GROWTH = 1 / 50
"""Growth of the rate per success, as a fraction of the maximum."""

PRIORITY_CHECK_SECONDS = 1.0
"""Seconds between two checks of the priority of a waiting request of the scheduler."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """State of the budget, as `/readyz` shows it.

    `per_minute` is the current rate, `full` the configured rate. `rest` is the pause in seconds that the
    platform requested. `open_since` is the Unix time since which no request succeeds, or None. `again` is the
    number of seconds until the next attempt.
    """

    per_minute: float
    full: float
    rest: float
    open_since: float | None
    again: float

    @property
    def pause_end(self) -> str | None:
        """End of the requested pause in UTC text; None if retries of a request cover the pause."""
        return clock.utc_text(round(clock.unix() + self.rest)) if self.rest > MAX_REQUEST_DELAY else None


class Budget:
    """Rate of `per_minute` requests for the scheduler, `slots` concurrent requests in total."""

    def __init__(self, per_minute: int, slots: int) -> None:
        self._capacity = float(per_minute)
        self._slots = slots
        self._background_slots = slots - 1 if slots > 1 else slots
        self._condition = threading.Condition()
        self._active = 0
        self._interactive_waiting = 0
        self._rate_share = 1.0
        self._tokens = self._capacity
        self._refilled_at = clock.monotonic()
        self._paused_until = 0.0
        self._circuit = Circuit()
        self._is_closed = False

    @contextmanager
    def turn(self, priority: PrioritySource, seconds: float) -> Iterator[None]:
        """Wait for a slot and hold it.

        A request for a user waits at most `seconds`. A request of the scheduler has no limit and also waits
        for a token. Raises PlatformUnreachable without a free slot in time and after `close()`. Raises
        CircuitOpen for the scheduler while the circuit is open.
        """
        get_priority = priority if callable(priority) else lambda: priority
        with self._condition:
            if get_priority() == INTERACTIVE:
                self._wait_interactive(seconds)
            else:
                self._circuit.admit()
                self._wait_background(get_priority, seconds)
            self._tokens -= 1
            self._active += 1
        try:
            yield
        finally:
            with self._condition:
                self._active -= 1
                self._condition.notify_all()

    @property
    def active_requests(self) -> int:
        """Number of requests that hold a slot now."""
        return self._active

    def record_failure(self, retry_after: float | None = None) -> None:
        """Record a failed request.

        Halves the rate, drops saved tokens, and pauses for `retry_after` seconds.
        """
        with self._condition:
            self._refill()
            self._circuit.record_failure()
            self._rate_share = max(MIN_SHARE, self._rate_share / 2)
            self._tokens = min(self._tokens, 1.0)
            if retry_after:
                self._paused_until = max(self._paused_until, clock.monotonic() + retry_after)

    def record_success(self) -> None:
        """Record a successful request: raise the rate by SHARE_GROWTH."""
        with self._condition:
            self._refill()
            self._circuit.record_success()
            self._rate_share = min(1.0, self._rate_share + SHARE_GROWTH)

    @property
    def per_minute(self) -> float:
        """Current rate of the scheduler in requests per minute."""
        return self._capacity * self._rate_share

    def state(self) -> BudgetState:
        with self._condition:
            pause_seconds = max(0.0, self._paused_until - clock.monotonic())
            circuit = self._circuit
            return BudgetState(
                self.per_minute,
                self._capacity,
                pause_seconds,
                circuit.open_since,
                circuit.seconds_until_probe,
            )

    def close(self) -> None:
        """Make all waiting and later requests fail with PlatformUnreachable."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def delay(self) -> float:
        """Return the seconds until a token is available to the scheduler.

        Returns 0 if a token is available now.
        """
        with self._condition:
            self._refill()
            wait = (1.0 - self._tokens) / (self.per_minute / 60) if self._tokens < 1 else 0.0
            return max(wait, self._paused_until - clock.monotonic(), 0.0)

    def _wait_interactive(self, seconds: float) -> None:
        deadline = clock.monotonic() + seconds
        self._interactive_waiting += 1
        try:
            while self._active >= self._slots:
                self._check_open()
                remaining = deadline - clock.monotonic()
                if remaining <= 0:
                    raise PlatformUnreachable("every connection to the platform is busy; try again")
                self._condition.wait(remaining)
            self._check_open()
        finally:
            self._interactive_waiting -= 1

    def _wait_background(self, get_priority: Callable[[], Priority], seconds: float) -> None:
        while True:
            self._check_open()
            if get_priority() == INTERACTIVE:
                self._wait_interactive(seconds)
                return
            delay = self.delay()
            if delay <= 0 and not self._interactive_waiting and self._active < self._background_slots:
                return
            self._condition.wait(min(delay, PRIORITY_CHECK_SECONDS) if delay > 0 else PRIORITY_CHECK_SECONDS)

    def _refill(self) -> None:
        now = clock.monotonic()
        new_tokens = (now - self._refilled_at) * self.per_minute / 60
        self._tokens = min(self._capacity, self._tokens + new_tokens)
        self._refilled_at = now

    def _check_open(self) -> None:
        if self._is_closed:
            raise PlatformUnreachable("Switchroom is stopping")
