"""Which collections rest after a failure, and until when."""

from __future__ import annotations

import threading

from integration.core import clock
from integration.core.backoff import Backoff
from integration.core.errors import PlatformError

MAX_PAUSE_SECONDS = 300.0
PAUSE_SECONDS = (60.0, 120.0, 240.0, MAX_PAUSE_SECONDS)
"""Seconds between requests for a collection that fails: at most one a minute, and no more than five minutes
until the platform's return is noticed."""
JITTER = (1.0, 1.3)

OUTAGE_SECONDS = 90.0
"""Seconds without any success after which one success means that the platform is back for all."""

UNAVAILABLE_PAUSE_SECONDS = 3600.0
"""Seconds until a collection that the platform refuses us (403, 404) is asked for again."""


class CollectionBackoff:
    """Thread-safe. Collections by path; a failing one holds up no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backoffs: dict[str, Backoff] = {}
        self._unavailable: set[str] = set()
        self._last_success_at = clock.monotonic()

    def is_paused(self, collection: str) -> bool:
        """Whether the collection may not be asked for yet."""
        return self.seconds_left(collection) > 0

    def seconds_left(self, collection: str) -> float:
        """How long it still rests; 0 if it does not."""
        with self._lock:
            return self._backoffs[collection].seconds_left if collection in self._backoffs else 0.0

    def failed(self, collection: str, error: PlatformError) -> float:
        """Returns the seconds it rests: doubling, never shorter than the platform asked for."""
        with self._lock:
            backoff = self._backoffs.setdefault(collection, Backoff(PAUSE_SECONDS, jitter=JITTER))
            return backoff.failed(at_least=error.retry_after or 0.0)

    def mark_unavailable(self, collection: str) -> None:
        """The platform refuses it: nothing is wrong with the platform, and others go on."""
        with self._lock:
            self._unavailable.add(collection)
            self._backoffs[collection] = Backoff(PAUSE_SECONDS, jitter=JITTER)
            self._backoffs[collection].pause(UNAVAILABLE_PAUSE_SECONDS)

    def mark_available(self, collection: str) -> None:
        """It answered again."""
        with self._lock:
            self._unavailable.discard(collection)

    def list_unavailable(self) -> list[str]:
        with self._lock:
            return sorted(self._unavailable)

    def succeeded(self, collection: str) -> bool:
        """Returns whether this was the first success after the platform had been away: then all may ask."""
        with self._lock:
            now = clock.monotonic()
            has_recovered = now - self._last_success_at > OUTAGE_SECONDS and bool(self._backoffs)
            self._last_success_at = now
            self._backoffs.pop(collection, None)
            if has_recovered:
                for name, backoff in self._backoffs.items():
                    if name not in self._unavailable:
                        backoff.pause(0.0)
            return has_recovered
