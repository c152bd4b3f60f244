"""Who may ask the platform now: slots for requests under way, a bucket of requests per minute.

People come first. They never wait for the bucket, and the scheduler always leaves them a slot where there
is more than one. The scheduler's rate halves whenever the platform complains (429, 5xx, malformed answers)
and grows back with every good answer; where nothing works at all, it hardly asks (circuit.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from integration.core import clock
from integration.core.errors import PlatformUnreachable
from integration.platform_api.circuit import Circuit

Who = Literal["people", "background"]
PEOPLE: Who = "people"
BACKGROUND: Who = "background"

LEAST = 1 / 64
GROWTH = 1 / 50
"""Of the full rate, given back per good answer."""

LONGEST_REST = 3600.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How freely the scheduler may ask: `per_minute` now and at best (`full`), `rest` seconds that the
    platform asked it to wait, `open_since` (Unix seconds) if nothing works and `again` seconds until it is
    tried."""

    per_minute: float
    full: float
    rest: float
    open_since: float | None
    again: float


class Budget:
    """`per_minute` requests of the scheduler, `slots` requests of all at once."""

    def __init__(self, per_minute: int, slots: int) -> None:
        self._capacity = float(per_minute)
        self._slots = slots
        self._for_background = slots - 1 if slots > 1 else slots
        self._condition = threading.Condition()
        self._active = 0
        self._people_waiting = 0
        self._share = 1.0
        self._tokens = self._capacity
        self._counted_at = clock.monotonic()
        self._rest_until = 0.0
        self._circuit = Circuit()
        self._closed = False

    @contextmanager
    def turn(self, who: Who, seconds: float) -> Iterator[None]:
        """Wait for a slot (people: at most `seconds`; the scheduler: also for the bucket), hold it.

        Raises PlatformUnreachable when no slot came free in time, or when closing; Resting for the scheduler
        while nothing works.
        """
        with self._condition:
            if who == PEOPLE:
                self._wait_as_person(seconds)
            else:
                self._circuit.admit()
                self._wait_in_background()
            self._tokens -= 1
            self._active += 1
        try:
            yield
        finally:
            with self._condition:
                self._active -= 1
                self._condition.notify_all()

    def complain(self, retry_after: float | None = None) -> None:
        """The platform was in trouble: half the rate, nothing saved up, and the rest it asked for."""
        with self._condition:
            self._count()
            self._circuit.failed()
            self._share = max(LEAST, self._share / 2)
            self._tokens = min(self._tokens, 1.0)
            if retry_after:
                rest = clock.monotonic() + min(retry_after, LONGEST_REST)
                self._rest_until = max(self._rest_until, rest)

    def praise(self) -> None:
        """A good answer: a little of the rate comes back."""
        with self._condition:
            self._count()
            self._circuit.worked()
            self._share = min(1.0, self._share + GROWTH)

    @property
    def per_minute(self) -> float:
        """The scheduler's present rate."""
        return self._capacity * self._share

    def standing(self) -> Standing:
        with self._condition:
            rest = max(0.0, self._rest_until - clock.monotonic())
            circuit = self._circuit
            return Standing(self.per_minute, self._capacity, rest, circuit.open_since, circuit.seconds_left)

    def close(self) -> None:
        """Whoever waits is told that Switchroom is stopping."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def delay(self) -> float:
        """Seconds until the bucket lets the scheduler ask again; 0 for now."""
        with self._condition:
            return self._delay()

    def _wait_as_person(self, seconds: float) -> None:
        deadline = clock.monotonic() + seconds
        self._people_waiting += 1
        try:
            while self._active >= self._slots:
                self._check_open()
                left = deadline - clock.monotonic()
                if left <= 0:
                    raise PlatformUnreachable("every connection to the platform is busy; try again")
                self._condition.wait(left)
            self._check_open()
        finally:
            self._people_waiting -= 1

    def _wait_in_background(self) -> None:
        while True:
            self._check_open()
            delay = self._delay()
            if delay <= 0 and not self._people_waiting and self._active < self._for_background:
                return
            self._condition.wait(min(delay, 1.0) if delay > 0 else None)

    def _delay(self) -> float:
        self._count()
        wait = (1.0 - self._tokens) / (self.per_minute / 60) if self._tokens < 1 else 0.0
        return max(wait, self._rest_until - clock.monotonic(), 0.0)

    def _count(self) -> None:
        now = clock.monotonic()
        gained = (now - self._counted_at) * self.per_minute / 60
        self._tokens = min(self._capacity, self._tokens + gained)
        self._counted_at = now

    def _check_open(self) -> None:
        if self._closed:
            raise PlatformUnreachable("Switchroom is stopping")
