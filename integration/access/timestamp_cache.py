"""Times of recent events by credential, for a bounded number of credentials."""

from __future__ import annotations

import threading


class TimestampCache:
    """Unix seconds by digest. Thread-safe.

    With `max_entries` entries or more, each store drops entries older than `keep_seconds`.
    """

    def __init__(self, max_entries: int, keep_seconds: float) -> None:
        self._max_entries = max_entries
        self._keep_seconds = keep_seconds
        self._times: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._times)

    def get(self, digest: bytes) -> float:
        """Return the stored time, 0.0 if there is none."""
        return self._times.get(digest, 0.0)

    def replace(self, digest: bytes, now: float) -> float:
        """Store `now` and return the time stored before.

        Returns 0.0 if no time was stored.
        """
        with self._lock:
            previous = self._times.get(digest, 0.0)
            if len(self._times) >= self._max_entries:
                self._times = {
                    stored: time for stored, time in self._times.items() if now - time < self._keep_seconds
                }
            self._times[digest] = now
        return previous
