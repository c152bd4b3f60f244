"""Work of the sync jobs on collections, one run each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from integration.core import clock
from integration.core.errors import PlatformError, PlatformUnreachable
from integration.mirror.sync_state import collection_state
from integration.sync import progress
from integration.sync.backoff_runner import BackoffRunner
from integration.sync.context import SyncContext
from integration.sync.plan import FILES_OF, PLAN, SUBRESOURCES, Policy, list_history_policies
from integration.sync.reading import day_counts, incremental_sync, items, live_poll
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Tally


class CollectionJobs:
    """`on_files()` is called when records that have files may have come."""

    def __init__(
        self,
        context: SyncContext,
        runner: BackoffRunner,
        stopping: threading.Event,
        on_files: Callable[[], None],
    ) -> None:
        self._context = context
        self._runner = runner
        self._stopping = stopping
        self._on_files = on_files

    def poll(self) -> None:
        if live_poll.needed(self._context):
            self._run_collection(PLAN["calls"], partial(live_poll.poll, self._context))

    def run_incremental_sync(self, policy: Policy) -> None:
        self._run_collection(
            policy, lambda: incremental_sync.run_incremental_sync(self._context, policy, self._make_tally())
        )

    def run_due_full_syncs(self, policies: Sequence[Policy]) -> None:
        """Read completely what was never, or not for too long. A collection that fails does not stop the
        next; the last error is this round's."""
        failure: PlatformError | None = None
        for policy in policies:
            if self._stopping.is_set():
                return
            try:
                if self._is_full_sync_due(policy):
                    self._run_collection(policy, partial(self._run_full_sync, policy))
            except PlatformUnreachable:
                # Whoever asks next will wait in vain, too, and the others must not wait behind it.
                raise
            except PlatformError as error:
                failure = error
        if failure is not None:
            raise failure

    def refresh_due_records(self) -> None:
        """What changes without telling, and what lies below records."""
        for policy in list_history_policies():
            if policy.refresh is not None and not self._stopping.is_set():
                seconds, days = policy.refresh
                with self._context.mirror_db.read() as connection:
                    last_refresh_at = collection_state.get_state(connection, policy.collection).reread_at
                if (
                    last_refresh_at is None
                    or not clock.utc_text(clock.unix() - seconds) < last_refresh_at <= clock.utc_text()
                ):
                    self._run_collection(
                        policy,
                        partial(
                            incremental_sync.refresh_recent, self._context, policy, days, self._make_tally()
                        ),
                    )
        for subresource in SUBRESOURCES.values():
            if subresource.interval_seconds is not None and not self._stopping.is_set():
                self._run_due_requests(
                    PLAN[subresource.collection],
                    partial(items.read_due_subresources, self._context, subresource, self._make_tally()),
                )

    def verify_completeness(self) -> None:
        """The platform's count of each day against ours."""
        for policy in list_history_policies():
            if not self._stopping.is_set():
                self._run_due_requests(
                    policy, partial(day_counts.verify_due_days, self._context, policy, self._make_tally())
                )
        day_counts.report_completeness(self._context)

    def _run_collection(self, policy: Policy, work: Callable[[], object]) -> None:
        """Do `work`, which always asks the platform."""

        def request() -> int:
            work()
            return 1

        self._run_due_requests(policy, request)

    def _run_due_requests(self, policy: Policy, work: Callable[[], int]) -> None:
        """Do `work`, which returns how much was due and was asked for."""
        if self._runner.run_collection(policy, work) and policy.collection in FILES_OF:
            self._on_files()

    def _is_full_sync_due(self, policy: Policy) -> bool:
        with self._context.mirror_db.read() as connection:
            state = collection_state.get_state(connection, policy.collection)
            rows = collection_state.count_rows(connection, policy.resource)
        if state.complete_at is None or state.begun_at is not None:
            return True
        synced_before = clock.utc_text(clock.unix() - policy.full_sync_seconds(self._context.settings, rows))
        # A time in the future was written by a clock that has been set right since.
        return not synced_before < state.complete_at <= clock.utc_text()

    def _run_full_sync(self, policy: Policy) -> None:
        with self._track_progress(policy) as show:
            tally = self._make_tally(show)
            run_full_sync(self._context, policy, tally)
        if policy.reads_items:
            items.read_due_items(self._context, policy, tally)

    def _track_progress(self, policy: Policy) -> AbstractContextManager[progress.ShowProgress]:
        return progress.track_reading(self._context.health, policy.collection)

    def _make_tally(self, show: progress.ShowProgress = lambda _done, _total: None) -> Tally:
        return Tally(show_progress=show, should_continue=lambda: not self._stopping.is_set())
