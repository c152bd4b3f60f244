"""What the clockwork's jobs do with collections, one round each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformError, PlatformUnreachable
from integration.mirror.sync_state import collection_state as walks
from integration.sync import progress
from integration.sync.backoff_runner import Attempts
from integration.sync.context import Parts
from integration.sync.plan import BELOW, FILES_OF, PLAN, Policy, growing
from integration.sync.reading import (
    day_counts as coverage,
)
from integration.sync.reading import (
    incremental_sync as reconcile,
)
from integration.sync.reading import (
    items,
)
from integration.sync.reading import (
    live_poll as live,
)
from integration.sync.reading.full_sync import walk
from integration.sync.reading.page_store import Tally


class Rounds:
    """`on_files()` is called when records that have files may have come."""

    def __init__(
        self, parts: Parts, attempts: Attempts, stopping: threading.Event, on_files: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._attempts = attempts
        self._stopping = stopping
        self._on_files = on_files

    def poll(self) -> None:
        if live.needed(self._parts):
            self._attempt(PLAN["calls"], partial(live.poll, self._parts))

    def look_back(self, policy: Policy) -> None:
        self._attempt(policy, lambda: reconcile.look_back(self._parts, policy, self._tally()))

    def walk_due(self, policies: Sequence[Policy]) -> None:
        """Read completely what was never, or not for too long. A collection that fails does not stop the
        next; the last error is this round's."""
        failure: PlatformError | None = None
        for policy in policies:
            if self._stopping.is_set():
                return
            try:
                if self._walk_is_due(policy):
                    self._attempt(policy, partial(self._walk, policy))
            except PlatformUnreachable:
                # Whoever asks next will wait in vain, too, and the others must not wait behind it.
                raise
            except PlatformError as error:
                failure = error
        if failure is not None:
            raise failure

    def reread_due(self) -> None:
        """What changes without telling, and what lies below records."""
        for policy in growing():
            if policy.reread is not None and not self._stopping.is_set():
                seconds, days = policy.reread
                with self._parts.mirror.read() as connection:
                    last = walks.state_of(connection, policy.collection).reread_at
                if last is None or not clock.stamp(clock.unix() - seconds) < last <= clock.stamp():
                    self._attempt(policy, partial(reconcile.reread, self._parts, policy, days, self._tally()))
        for below in BELOW.values():
            if below.seconds is not None and not self._stopping.is_set():
                self._attempt(
                    PLAN[below.collection], partial(items.read_due_below, self._parts, below, self._tally())
                )

    def prove(self) -> None:
        """The platform's count of each day against ours."""
        for policy in growing():
            if not self._stopping.is_set():
                self._attempt(policy, partial(coverage.prove, self._parts, policy, self._tally()))
        coverage.tell(self._parts)

    def _attempt(self, policy: Policy, work: Callable[[], object]) -> None:
        if self._attempts.collection(policy, work) and policy.collection in FILES_OF:
            self._on_files()

    def _walk_is_due(self, policy: Policy) -> bool:
        with self._parts.mirror.read() as connection:
            state = walks.state_of(connection, policy.collection)
        if state.complete_at is None or state.begun_at is not None:
            return True
        oldest = clock.stamp(clock.unix() - policy.walk_seconds(self._parts.settings, state.rows))
        # A time in the future was written by a clock that has been set right since.
        return not oldest < state.complete_at <= clock.stamp()

    def _walk(self, policy: Policy) -> None:
        with self._showing(policy) as show:
            tally = self._tally(show)
            walk(self._parts, policy, tally)
        if policy.items:
            items.read_due_items(self._parts, policy, tally)

    def _showing(self, policy: Policy) -> AbstractContextManager[progress.Show]:
        return progress.reading(self._parts.health, policy.collection)

    def _tally(self, show: progress.Show = lambda _done, _total: None) -> Tally:
        return Tally(show=show, wanted=lambda: not self._stopping.is_set())
