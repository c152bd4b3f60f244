"""Asking a platform that may be in trouble: who rests after a failure, what is off, when all is well."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformError
from integration.mirror.sync_state import media_files
from integration.platform_api.circuit import CircuitOpen
from integration.sync.collection_backoff import CollectionBackoff
from integration.sync.context import SyncContext
from integration.sync.plan import Policy
from integration.sync.reading.page_store import is_unavailable, store_failure


class BackoffRunner:
    """`on_recovery()` is called when the platform is back after it had been away for all."""

    def __init__(
        self, context: SyncContext, stopping: threading.Event, on_recovery: Callable[[], None]
    ) -> None:
        self._context = context
        self._stopping = stopping
        self._on_recovery = on_recovery
        self._outage_since: str | None = None
        self.backoff = CollectionBackoff()

    def run_collection(self, policy: Policy, work: Callable[[], int]) -> bool:
        """Do `work`, which returns how much it asked for, unless the collection rests; returns whether it
        asked. What goes wrong is kept with the collection, and raised. One that the platform refuses us is
        off, and no other is the worse for it."""
        if self.backoff.is_paused(policy.collection):
            return False
        try:
            request_count = work()
        except CircuitOpen:
            # Nothing was asked, so nothing was learnt about this collection.
            raise
        except PlatformError as error:
            if not self._stopping.is_set():
                store_failure(self._context, policy, error)
                if is_unavailable(error):
                    self.backoff.mark_unavailable(policy.collection)
                    self._report_unavailable()
                    return False
                self._record_failure(policy.collection, error)
            raise
        if not request_count:
            # Nothing was due: that is no sign of the platform, which may be away.
            return False
        self._record_success(policy.collection)
        return True

    def run_named(self, name: str, work: Callable[[], int]) -> None:
        """Do `work`, which returns how much it asked for; the platform's failure makes `name` rest."""
        if self.backoff.is_paused(name):
            return
        try:
            if work():
                self._record_success(name)
        except CircuitOpen:
            raise
        except PlatformError as error:
            if not self._stopping.is_set():
                self._record_failure(name, error)
            raise

    def _record_failure(self, name: str, error: PlatformError) -> None:
        self.backoff.failed(name, error)
        if self._outage_since is None:
            self._outage_since = clock.utc_text()

    def _record_success(self, name: str) -> None:
        """When the platform is back, files that failed meanwhile do not wait for their hours to pass."""
        if name in self.backoff.list_unavailable():
            self.backoff.mark_available(name)
            self._report_unavailable()
        has_recovered = self.backoff.succeeded(name)
        since, self._outage_since = self._outage_since, None
        if has_recovered and since is not None:
            self._context.mirror_db.write(partial(media_files.wake, since=since))
            self._on_recovery()

    def _report_unavailable(self) -> None:
        """Which collections the platform refuses, for /readyz and the System page."""
        self._context.health.set_fact("collections_off", self.backoff.list_unavailable())
