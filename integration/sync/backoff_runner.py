"""Asking a platform that may be in trouble: who rests after a failure, what is off, when all is well."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformError
from integration.mirror.sync_state import media_files as media
from integration.platform_api.circuit import Resting
from integration.sync.collection_backoff import Backoff
from integration.sync.context import Parts
from integration.sync.plan import Policy
from integration.sync.reading.page_store import is_off, note_failure


class Attempts:
    """`on_back()` is called when the platform is back after it had been away for all."""

    def __init__(self, parts: Parts, stopping: threading.Event, on_back: Callable[[], None]) -> None:
        self._parts = parts
        self._stopping = stopping
        self._on_back = on_back
        self._away_since: str | None = None
        self.backoff = Backoff()

    def collection(self, policy: Policy, work: Callable[[], object]) -> bool:
        """Do `work` unless the collection rests; returns whether it did. What goes wrong is kept with the
        collection, and raised. One that the platform refuses us is off, and no other is the worse for it."""
        if self.backoff.resting(policy.collection):
            return False
        try:
            work()
        except Resting:
            # Nothing was asked, so nothing was learnt about this collection.
            raise
        except PlatformError as error:
            if not self._stopping.is_set():
                note_failure(self._parts, policy, error)
                if is_off(error):
                    self.backoff.off(policy.collection)
                    self._tell_off()
                    return False
                self._failed(policy.collection, error)
            raise
        self._succeeded(policy.collection)
        return True

    def named(self, name: str, work: Callable[[], int]) -> None:
        """Do `work`, which returns how much it asked for; the platform's failure makes `name` rest."""
        if self.backoff.resting(name):
            return
        try:
            if work():
                self._succeeded(name)
        except Resting:
            raise
        except PlatformError as error:
            if not self._stopping.is_set():
                self._failed(name, error)
            raise

    def _failed(self, name: str, error: PlatformError) -> None:
        self.backoff.failed(name, error)
        if self._away_since is None:
            self._away_since = clock.stamp()

    def _succeeded(self, name: str) -> None:
        """When the platform is back, files that failed meanwhile do not wait for their hours to pass."""
        if name in self.backoff.are_off():
            self.backoff.on(name)
            self._tell_off()
        back = self.backoff.succeeded(name)
        since, self._away_since = self._away_since, None
        if back and since is not None:
            self._parts.mirror.write(partial(media.wake, since=since))
            self._on_back()

    def _tell_off(self) -> None:
        """Which collections the platform refuses, for /readyz and the System page."""
        self._parts.health.fact("collections_off", self.backoff.are_off())
