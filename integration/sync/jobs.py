"""Sync jobs: intervals, executors and the work of each run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial

from integration.context import SyncContext
from integration.core import clock
from integration.core.errors import PlatformError, PlatformUnreachable
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.mirror.calls.store import CallStore
from integration.mirror.sync_state import collection_state, completeness, lookup_queue, media_files
from integration.platform_api.circuit import CircuitOpen
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync.collection_backoff import CollectionBackoff
from integration.sync.files import download, scrub
from integration.sync.plan import (
    FILES_OF,
    LONG_REFRESH_SECONDS,
    NAME_COLLECTIONS,
    OLD_RECORD_DAYS,
    PLAN,
    SUBRESOURCES,
    Policy,
    has_read_names,
    is_due,
    list_full_sync_policies,
    list_history_policies,
)
from integration.sync.progress import FACT_PREFIX, ShowProgress, track_progress
from integration.sync.reading import (
    day_counts,
    deletions,
    incremental_sync,
    items,
    live_poll,
    lookups,
)
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import Interrupted, Tally, store_failure

log = logging.getLogger(__name__)

FULL_SYNC_CHECK_SECONDS = 15.0
"""Seconds between checks for due full syncs."""
REFRESH_CHECK_SECONDS = 60.0
"""Seconds between checks for due refreshes."""
VERIFY_INTERVAL_SECONDS = 300.0
"""Seconds between checks for days whose counts are due for verification."""
KEEP_ALIVE_CHECK_SECONDS = 30.0
"""Seconds between checks whether the platform needs a ping."""
IDLE_SECONDS = 60.0
"""Seconds between runs of lookups and downloads while none is due.

`SyncJobs.nudge` starts them at once.
"""

INCREMENTAL_SYNC_PREFIX = "incremental sync of "
"""Beginning of the names of jobs; the collection follows."""
HISTORIES_JOB = "full syncs"
LOOKUPS_JOB = "lookups"
DOWNLOADS_JOB = "downloads"
IGNORED_ERRORS = (Interrupted, CircuitOpen)
"""Errors that end a run without a result.

The product stops, or no request was sent.
"""


class SyncJobs:
    """Jobs that keep the mirror equal to the platform. Call `schedule()` once."""

    def __init__(
        self,
        settings: Settings,
        mirror_db: Database,
        platform: Platform,
        call_store: CallStore,
        health: Health,
        scheduler: Scheduler,
    ) -> None:
        self.context = SyncContext(settings, mirror_db, platform, health, call_store)
        self._scheduler = scheduler
        self.backoff = CollectionBackoff(self.context, scheduler.stopping)
        health.probe(deletions.HEALTH_CHECK, partial(deletions.describe_held, mirror_db))
        health.provide_fact("collections_off", self._list_refused)
        self._downloads_prepared = False
        self._long_refresh_due_at: dict[str, float] = {}
        """Monotonic time of the next refresh of the last OLD_RECORD_DAYS, by collection."""
        self._outage_since: float | None = None
        self._wake_files_since: float | None = None
        """Start of the outage whose failed downloads are due again."""

    def schedule(self) -> None:
        sync, every = self.context.settings.sync, self._scheduler.every
        every("live calls", sync.live_interval, self.poll, executor="sync")
        check_seconds = min(FULL_SYNC_CHECK_SECONDS, sync.full_interval)
        lists = [policy for policy in list_full_sync_policies() if policy.kind != "grows"]
        every("lists", check_seconds, self._run_due_full_syncs, lists, executor="sync")
        for policy in list_history_policies():
            seconds = policy.incremental_sync_seconds(self.context.settings)
            name = f"{INCREMENTAL_SYNC_PREFIX}{policy.collection}"
            every(name, seconds, self.run_incremental_sync, policy, executor="sync")
        # A separate executor: the initial sync of a long history takes minutes and must not delay lists.
        every(HISTORIES_JOB, check_seconds, self._run_due_history_syncs, executor="full_sync")
        every("refreshes", REFRESH_CHECK_SECONDS, self.refresh_due_records, executor="full_sync")
        every("completeness checks", VERIFY_INTERVAL_SECONDS, self.verify_completeness, executor="full_sync")
        every(LOOKUPS_JOB, IDLE_SECONDS, self._run_lookups, executor="sync")
        every(DOWNLOADS_JOB, IDLE_SECONDS, self._run_downloads, executor="downloads")
        every("archive checks", scrub.RUN_INTERVAL_SECONDS, self._scrub_archive, executor="downloads")
        every("keep-alive", KEEP_ALIVE_CHECK_SECONDS, self._keep_alive, executor="sync")
        self.context.health.probe("platform credentials", lambda: self.context.platform.problem)
        self.context.health.probe("platform", self._describe_outage)
        self._scheduler.on_tick = self._report_budget

    def nudge(self) -> None:
        """Start lookups and downloads at once.

        Does not block; callable from any thread.
        """
        for name in (LOOKUPS_JOB, DOWNLOADS_JOB):
            self._scheduler.nudge(name)

    # --- jobs of collections -----------------------------------------------------------------------

    def poll(self) -> None:
        if not live_poll.needed(self.context):
            return
        policy = PLAN["calls"]
        try:
            self._run_collection(policy, partial(live_poll.poll, self.context))
        except CircuitOpen as error:
            # Without this failure the facade would serve the list as current although it is not polled.
            with self.context.mirror_db.read() as connection:
                has_failed = collection_state.get_state(connection, policy.collection).last_error is not None
            if not has_failed:
                store_failure(self.context, policy, error)
            raise

    def run_incremental_sync(self, policy: Policy) -> None:
        self._run_collection(
            policy,
            lambda: incremental_sync.run_incremental_sync(self.context, policy, self._make_tally()),
        )

    def verify_completeness(self) -> float | None:
        """Compare the counts of due days with those of the platform.

        Returns the Unix time at which new differences are checked again, or None.
        """
        for policy in list_history_policies():
            if self._should_continue():
                self._run_due_requests(
                    policy, partial(day_counts.verify_due_days, self.context, policy, self._make_tally())
                )
        day_counts.report_completeness(self.context)
        with self.context.mirror_db.read() as connection:
            recheck_at = clock.parse_utc(completeness.find_next_recheck(connection))
        return None if recheck_at is None else recheck_at.timestamp() + 1

    def _run_due_history_syncs(self) -> None:
        """Run the due full syncs of histories, but not before names were read.

        Otherwise pages would show callers without names while names are requested beside a long history.
        """
        with self.context.mirror_db.read() as connection:
            is_ready = has_read_names(collection_state.list_states(connection))
        if is_ready:
            self._run_due_full_syncs(list_history_policies())

    def _run_due_full_syncs(self, policies: Sequence[Policy]) -> None:
        """Run the due full syncs of `policies`.

        A failing collection does not stop the others, unless the platform is unreachable. Raises the last
        error.
        """
        failure: PlatformError | None = None
        for policy in policies:
            if not self._should_continue():
                return
            try:
                if self._is_full_sync_due(policy):
                    self._run_collection(policy, partial(self._run_full_sync, policy))
            except PlatformUnreachable:
                # Requests for the other collections would fail too, each after its full timeout.
                raise
            except PlatformError as error:
                failure = error
        if failure is not None:
            raise failure

    def refresh_due_records(self) -> None:
        """Read recent records and subresources again, because no webhook reports their changes."""
        for policy in list_history_policies():
            if policy.refresh is not None and self._should_continue():
                seconds, days = policy.refresh
                with self.context.mirror_db.read() as connection:
                    state = collection_state.get_state(connection, policy.collection)
                if is_due(state.reread_at, seconds):
                    self._refresh(policy, days)
                due_at = self._long_refresh_due_at.get(policy.collection, 0.0)
                if state.is_complete and clock.monotonic() >= due_at:
                    self._refresh(policy, OLD_RECORD_DAYS)
        for subresource in SUBRESOURCES.values():
            if self._should_continue():
                self._run_due_requests(
                    PLAN[subresource.collection],
                    partial(items.read_due_subresources, self.context, subresource, self._make_tally()),
                )

    def _refresh(self, policy: Policy, days: int) -> None:
        try:
            self._run_collection(
                policy,
                lambda: incremental_sync.refresh_recent(self.context, policy, days, self._make_tally()),
            )
        finally:
            if days == OLD_RECORD_DAYS:
                due_at = clock.monotonic() + LONG_REFRESH_SECONDS
                self._long_refresh_due_at[policy.collection] = due_at

    def _run_collection(self, policy: Policy, work: Callable[[], object]) -> None:
        """Run `work`, which always sends a request."""

        def request() -> int:
            work()
            return 1

        self._run_due_requests(policy, request)

    def _run_due_requests(self, policy: Policy, work: Callable[[], int]) -> None:
        """Run `work`, then start downloads of new files.

        `work` returns its number of requests.
        """
        if self.backoff.run(policy.collection, work) and policy.collection in FILES_OF:
            self._scheduler.nudge(DOWNLOADS_JOB)

    def _is_full_sync_due(self, policy: Policy) -> bool:
        with self.context.mirror_db.read() as connection:
            state = collection_state.get_state(connection, policy.collection)
            rows = collection_state.count_rows(connection, policy.resource)
        return state.begun_at is not None or is_due(
            state.complete_at, policy.full_sync_seconds(self.context.settings, rows)
        )

    def _run_full_sync(self, policy: Policy) -> None:
        with track_progress(self.context.health, f"{FACT_PREFIX}{policy.collection}") as show:
            tally = self._make_tally(show)
            run_full_sync(self.context, policy, tally)
        if policy.reads_items:
            items.read_due_items(self.context, policy, tally)
        if policy.collection in NAME_COLLECTIONS:
            self._scheduler.nudge(HISTORIES_JOB)

    def _make_tally(self, show: ShowProgress = lambda _done, _total: None) -> Tally:
        return Tally(show_progress=show, should_continue=self._should_continue)

    # --- other jobs --------------------------------------------------------------------------------

    def _run_lookups(self) -> float:
        self.backoff.run(
            LOOKUPS_JOB,
            lambda: live_poll.read_new_legs(self.context) + lookups.run_due_lookups(self.context),
        )
        # The lookups may have stored recordings whose files are due.
        self._scheduler.nudge(DOWNLOADS_JOB)
        with self.context.mirror_db.read() as connection:
            return self._next_run_at(LOOKUPS_JOB, lookup_queue.next_at(connection))

    def _run_downloads(self) -> float:
        if not self._downloads_prepared:
            download.prepare_downloads(self.context)
            self._downloads_prepared = True
        if self._wake_files_since is not None:
            # Files that failed during the outage would otherwise wait for hours.
            since = clock.utc_text(self._wake_files_since)
            self.context.mirror_db.write(partial(media_files.wake, since=since))
            self._wake_files_since = None
        # A full disk raises StorageFull, so no time is returned and the next run starts in IDLE_SECONDS.
        self.backoff.run(
            DOWNLOADS_JOB, lambda: download.download_due_files(self.context, self._should_continue)
        )
        kinds = download.list_enabled_kinds(self.context.settings)
        with self.context.mirror_db.read() as connection:
            return self._next_run_at(DOWNLOADS_JOB, media_files.next_at(connection, kinds))

    def _next_run_at(self, name: str, due_at: float | None) -> float:
        """Return the Unix time of the next run of `name`.

        That is `due_at`, or IDLE_SECONDS from now if that is earlier, but not before the end of the back-off.
        """
        now = clock.unix()
        idle_until = now + IDLE_SECONDS
        return max(
            idle_until if due_at is None else min(due_at, idle_until),
            now + self.backoff.seconds_left(name),
        )

    def _scrub_archive(self) -> None:
        """Check archived files; download damaged ones again."""
        if scrub.scrub_due_files(self.context, self._should_continue):
            self._scheduler.nudge(DOWNLOADS_JOB)

    def _keep_alive(self) -> None:
        self.context.platform.keep_alive()

    def _should_continue(self) -> bool:
        return not self._scheduler.stopping.is_set()

    def _list_refused(self) -> list[str]:
        with self.context.mirror_db.read() as connection:
            return [
                state.collection
                for state in collection_state.list_states(connection)
                if state.off_since is not None
            ]

    def _describe_outage(self) -> str | None:
        """Return the error of health check `platform`, or None.

        There is an error while the circuit is open, and during a pause that the platform requested.
        """
        budget_state = self.context.platform.budget.state()
        if budget_state.open_since is None:
            pause_end = budget_state.pause_end
            return (
                pause_end and f"the platform requested fewer requests; syncs are paused until {pause_end} UTC"
            )
        return (
            f"no request to the platform has succeeded since {clock.utc_text(budget_state.open_since)} UTC; "
            f"next attempt in {budget_state.again:.0f} s"
        )

    def _report_budget(self) -> None:
        """Publish the state of the budget. When the platform is reachable again, run all jobs."""
        budget_state = self.context.platform.budget.state()
        self.context.health.set_fact("platform_requests", asdict(budget_state))
        if self._outage_since is not None and budget_state.open_since is None:
            log.info("the platform is reachable again; running all jobs now")
            self._wake_files_since = self._outage_since
            self._long_refresh_due_at.clear()
            self.backoff.end_pauses()
            self._scheduler.run_all_now()
        self._outage_since = budget_state.open_since
