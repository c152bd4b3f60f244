"""Cache of records that the platform does not have.

One cache per application.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from integration.core import clock

CACHE_SECONDS = 5.0
"""Seconds for which a 404 of the platform is valid, unless a sync or a write stores the record."""
MAX_ENTRIES = 10_000
"""Number of newest 404 responses that are cached."""
_KEY_LOCKS = 256

CacheKey = tuple[str, str | None]
"""Path of the record, and the client for platform credentials (None for local keys)."""


class NotFoundCache:
    """404 responses of the platform, by path and client. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expiry_times: OrderedDict[CacheKey, float] = OrderedDict()
        self._key_locks = [threading.Lock() for _ in range(_KEY_LOCKS)]

    def is_missing(self, key: CacheKey) -> bool:
        """Return whether the platform had no such record within CACHE_SECONDS."""
        with self._lock:
            return self._expiry_times.get(key, 0.0) > clock.monotonic()

    def add(self, key: CacheKey) -> None:
        """Store that the platform has no such record."""
        with self._lock:
            self._expiry_times[key] = clock.monotonic() + CACHE_SECONDS
            self._expiry_times.move_to_end(key)
            while len(self._expiry_times) > MAX_ENTRIES:
                self._expiry_times.popitem(last=False)

    def lock_key(self, key: CacheKey) -> threading.Lock:
        """Return the lock for requests of a record; a few other records share it."""
        return self._key_locks[hash(key) % _KEY_LOCKS]
