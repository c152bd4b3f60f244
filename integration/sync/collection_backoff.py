"""Which collections rest after a failure, and until when."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from integration.core import clock
from integration.core.errors import PlatformError

LEAST = 60.0
MOST = 300.0
"""Seconds between requests for a collection that fails: at most one a minute, and no more than five minutes
until the platform's return is noticed."""

AWAY = 90.0
"""Seconds without any success after which one success means that the platform is back for all."""


@dataclass(slots=True)
class _Rest:
    failures: int
    until: float


OFF = 3600.0
"""Seconds until a collection that the platform refuses us (403, 404) is asked for again."""


class Backoff:
    """Thread-safe. Collections by path; a failing one holds up no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rests: dict[str, _Rest] = {}
        self._off: set[str] = set()
        self._succeeded_at = clock.monotonic()

    def resting(self, collection: str) -> bool:
        """Whether the collection may not be asked for yet."""
        return self.seconds_left(collection) > 0

    def seconds_left(self, collection: str) -> float:
        """How long it still rests; 0 if it does not."""
        with self._lock:
            rest = self._rests.get(collection)
            return max(0.0, rest.until - clock.monotonic()) if rest is not None else 0.0

    def failed(self, collection: str, error: PlatformError) -> float:
        """Returns the seconds it rests: doubling, never shorter than the platform asked for."""
        with self._lock:
            rest = self._rests.setdefault(collection, _Rest(0, 0.0))
            rest.failures += 1
            seconds = min(MOST, LEAST * 2.0 ** (rest.failures - 1)) * random.uniform(1.0, 1.3)
            seconds = max(seconds, error.retry_after or 0.0)
            rest.until = clock.monotonic() + seconds
            return seconds

    def off(self, collection: str) -> None:
        """The platform refuses it: nothing is wrong with the platform, and others go on."""
        with self._lock:
            self._off.add(collection)
            self._rests[collection] = _Rest(0, clock.monotonic() + OFF)

    def on(self, collection: str) -> None:
        """It answered again."""
        with self._lock:
            self._off.discard(collection)

    def are_off(self) -> list[str]:
        with self._lock:
            return sorted(self._off)

    def succeeded(self, collection: str) -> bool:
        """Returns whether this was the first success after the platform had been away: then all may ask."""
        with self._lock:
            now = clock.monotonic()
            back = now - self._succeeded_at > AWAY and bool(self._rests)
            self._succeeded_at = now
            self._rests.pop(collection, None)
            if back:
                for name, rest in self._rests.items():
                    if name not in self._off:
                        rest.until = 0.0
            return back
