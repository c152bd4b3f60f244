"""Back-off of failing collections and jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from integration.context import SyncContext
from integration.core.backoff import Backoff
from integration.core.errors import PlatformError
from integration.core.retry_delays import COLLECTION_FACTORS, COLLECTIONS, REFUSED_COLLECTION
from integration.platform_api.circuit import CircuitOpen
from integration.sync.plan import PLAN
from integration.sync.reading.page_store import is_unavailable, store_failure


class CollectionBackoff:
    """Runs work on collections and pauses the failing ones. Thread-safe.

    A pause affects no other collection. A collection is named by its path, another job by its job name.
    Failures after `stopping` is set are raised and not recorded.
    """

    def __init__(self, context: SyncContext, stopping: threading.Event) -> None:
        self._context = context
        self._stopping = stopping
        self._lock = threading.Lock()
        self._pauses: dict[str, Backoff] = {}

    def run(self, name: str, work: Callable[[], int]) -> bool:
        """Run `work`, which returns its number of requests, unless `name` is paused.

        Returns whether `work` sent a request and succeeded. A failure is stored with the collection and
        raised. A collection that the platform refuses is paused for long, and its failure is not raised.
        """
        if self.seconds_left(name) > 0:
            return False
        try:
            request_count = work()
        except CircuitOpen:
            # No request was sent, so the state of this collection is unknown.
            raise
        except PlatformError as error:
            if self._stopping.is_set():
                raise
            is_refused = name in PLAN and is_unavailable(error)
            if name in PLAN:
                store_failure(self._context, PLAN[name], error)
            self._pause(name, error, is_refused)
            if is_refused:
                return False
            raise
        # Without a request it is unknown whether the platform responds.
        if request_count:
            with self._lock:
                self._pauses.pop(name, None)
        return request_count > 0

    def seconds_left(self, name: str) -> float:
        """Seconds until the end of the pause; 0 without one."""
        with self._lock:
            return self._pauses[name].seconds_left if name in self._pauses else 0.0

    def end_pauses(self) -> None:
        """End all pauses after failures. Those of refused collections last."""
        with self._lock:
            for pause in self._pauses.values():
                if pause.failures:
                    pause.pause(0.0)

    def _pause(self, name: str, error: PlatformError, is_refused: bool) -> None:
        with self._lock:
            if is_refused:
                self._pauses[name] = Backoff(COLLECTIONS, jitter=COLLECTION_FACTORS)
                self._pauses[name].pause(REFUSED_COLLECTION)
            else:
                pause = self._pauses.setdefault(name, Backoff(COLLECTIONS, jitter=COLLECTION_FACTORS))
                pause.failed(at_least=error.retry_after or 0.0)
