"""Back-off of failing collections and jobs, and detection of the platform's recovery."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from integration.core import clock
from integration.core.backoff import Backoff
from integration.core.errors import PlatformError
from integration.core.retry_delays import COLLECTION_FACTORS, COLLECTIONS, REFUSED_COLLECTION
from integration.mirror.sync_state import media_files
from integration.platform_api.circuit import CircuitOpen
from integration.sync.context import SyncContext
from integration.sync.plan import PLAN
from integration.sync.reading.page_store import is_unavailable, store_failure

OUTAGE_SECONDS = 90.0
"""Seconds without success that count as an outage.

The first success afterwards ends the pauses of all collections.
"""


class CollectionBackoff:
    """Runs work on collections and pauses the failing ones. Thread-safe.

    A pause affects no other collection. A collection is named by its path, another job by its job name.
    `on_recovery()` is called at the first success after an outage of the entire platform. Failures after
    `stopping` is set are raised and not recorded.
    """

    def __init__(
        self, context: SyncContext, stopping: threading.Event, on_recovery: Callable[[], None]
    ) -> None:
        self._context = context
        self._stopping = stopping
        self._on_recovery = on_recovery
        self._lock = threading.Lock()
        self._pauses: dict[str, Backoff] = {}
        self._unavailable: set[str] = set()
        self._last_success_at = clock.monotonic()
        self._outage_since: str | None = None

    def run(self, name: str, work: Callable[[], int]) -> bool:
        """Run `work`, which returns its number of requests, unless `name` is paused.

        Returns whether `work` sent a request and succeeded. A failure is stored with the collection and
        raised. A collection that the platform refuses becomes unavailable, and its failure is not raised.
        """
        if self.is_paused(name):
            return False
        try:
            request_count = work()
        except CircuitOpen:
            # No request was sent, so the state of this collection is unknown.
            raise
        except PlatformError as error:
            if self._stopping.is_set():
                raise
            if name in PLAN:
                store_failure(self._context, PLAN[name], error)
                if is_unavailable(error):
                    self._mark_unavailable(name)
                    return False
            self._record_failure(name, error)
            raise
        if not request_count:
            # No request was sent, so it is unknown whether the platform responds.
            return False
        self._record_success(name)
        return True

    def is_paused(self, name: str) -> bool:
        return self.seconds_left(name) > 0

    def seconds_left(self, name: str) -> float:
        """Seconds until the end of the pause; 0 without one."""
        with self._lock:
            return self._pauses[name].seconds_left if name in self._pauses else 0.0

    def _record_failure(self, name: str, error: PlatformError) -> None:
        with self._lock:
            pause = self._pauses.setdefault(name, Backoff(COLLECTIONS, jitter=COLLECTION_FACTORS))
            pause.failed(at_least=error.retry_after or 0.0)
            if self._outage_since is None:
                self._outage_since = clock.utc_text()

    def _mark_unavailable(self, name: str) -> None:
        """Record that the platform refuses collection `name`, which is not an outage."""
        with self._lock:
            self._unavailable.add(name)
            self._pauses[name] = Backoff(COLLECTIONS, jitter=COLLECTION_FACTORS)
            self._pauses[name].pause(REFUSED_COLLECTION)
        self._report_unavailable()

    def _record_success(self, name: str) -> None:
        with self._lock:
            now = clock.monotonic()
            has_recovered = now - self._last_success_at > OUTAGE_SECONDS and bool(self._pauses)
            self._last_success_at = now
            self._pauses.pop(name, None)
            was_unavailable = name in self._unavailable
            self._unavailable.discard(name)
            if has_recovered:
                for other, pause in self._pauses.items():
                    if other not in self._unavailable:
                        pause.pause(0.0)
            outage_since, self._outage_since = self._outage_since, None
        if was_unavailable:
            self._report_unavailable()
        if has_recovered and outage_since is not None:
            # Files that failed during the outage would otherwise wait for hours.
            self._context.mirror_db.write(partial(media_files.wake, since=outage_since))
            self._on_recovery()

    def _report_unavailable(self) -> None:
        """Publish the collections that the platform refuses.

        They are shown in /readyz and on the System page.
        """
        with self._lock:
            unavailable = sorted(self._unavailable)
        self._context.health.set_fact("collections_off", unavailable)
