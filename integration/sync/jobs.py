"""Sync jobs: their intervals and executors."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial

from integration.core import clock
from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.mirror.sync_state import lookup_queue, media_files
from integration.platform_api.circuit import CircuitOpen
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync.backoff_runner import BackoffRunner
from integration.sync.collection_jobs import CollectionJobs
from integration.sync.context import CallUpdater, StandaloneSyncContext
from integration.sync.files import download, scrub
from integration.sync.plan import list_full_sync_policies, list_history_policies
from integration.sync.reading import call_assembly, deletions, lookups
from integration.sync.reading.page_store import Interrupted

log = logging.getLogger(__name__)

FULL_SYNC_CHECK_SECONDS = 15.0
REFRESH_CHECK_SECONDS = 60.0
VERIFY_INTERVAL_SECONDS = 300.0
KEEP_ALIVE_CHECK_SECONDS = 30.0
ASSEMBLY_CHECK_SECONDS = 5.0
IDLE_SECONDS = 60.0
"""How long look-ups and downloads sleep when nothing is arranged; a nudge wakes them sooner."""

LOOKUPS_JOB = "look-ups"
DOWNLOADS_JOB = "downloads"
IGNORED_ERRORS = (Interrupted, CircuitOpen)
"""End a run without a result: the product stops, or no request was sent."""


class SyncJobs:
    """The jobs that keep the mirror true; `schedule()` once."""

    def __init__(
        self,
        settings: Settings,
        mirror_db: Database,
        platform: Platform,
        call_store: CallUpdater,
        health: Health,
        scheduler: Scheduler,
    ) -> None:
        self.context = StandaloneSyncContext(settings, mirror_db, platform, health, call_store)
        self._scheduler = scheduler
        self._runner = BackoffRunner(self.context, scheduler.stopping, self._on_recovery)
        self._collection_jobs = CollectionJobs(
            self.context, self._runner, scheduler.stopping, partial(scheduler.nudge, DOWNLOADS_JOB)
        )
        self._downloads_prepared = False

    def schedule(self) -> None:
        sync, collection_jobs = self.context.settings.sync, self._collection_jobs
        every = self._scheduler.every
        every("live calls", sync.live_interval, collection_jobs.poll, executor="sync")
        for policy in list_history_policies():
            seconds = policy.incremental_sync_seconds(self.context.settings)
            incremental_sync = partial(collection_jobs.run_incremental_sync, policy)
            every(f"look-back {policy.collection}", seconds, incremental_sync, executor="sync")
        check_seconds = min(FULL_SYNC_CHECK_SECONDS, sync.full_interval)
        lists = [policy for policy in list_full_sync_policies() if policy.kind != "grows"]
        every("lists", check_seconds, collection_jobs.run_due_full_syncs, lists, executor="sync")
        # Apart: the initial sync of a big history takes minutes, and lists must not wait for it.
        every(
            "walks",
            check_seconds,
            collection_jobs.run_due_full_syncs,
            list_history_policies(),
            executor="full_sync",
        )
        every("re-reads", REFRESH_CHECK_SECONDS, collection_jobs.refresh_due_records, executor="full_sync")
        every("proofs", VERIFY_INTERVAL_SECONDS, collection_jobs.verify_completeness, executor="full_sync")
        every(call_assembly.JOB_NAME, ASSEMBLY_CHECK_SECONDS, self._assemble_calls, executor="calls")
        every(LOOKUPS_JOB, IDLE_SECONDS, self._run_lookups, executor="sync")
        every(DOWNLOADS_JOB, IDLE_SECONDS, self._run_downloads, executor="downloads")
        every("archive checks", scrub.RUN_INTERVAL_SECONDS, self._scrub_archive, executor="downloads")
        every("keep-alive", KEEP_ALIVE_CHECK_SECONDS, self._keep_alive, executor="sync")
        deletions.restore_health_failures(self.context)
        self.context.health.probe("platform credentials", lambda: self.context.platform.problem)
        self.context.health.probe("platform", self._describe_outage)
        self._scheduler.on_tick = self._report_budget

    def nudge(self) -> None:
        """Something new is wished for: look-ups and downloads run at once. Quick; any thread."""
        for name in (LOOKUPS_JOB, DOWNLOADS_JOB):
            self._scheduler.nudge(name)

    # --- jobs --------------------------------------------------------------------------------------

    def _run_lookups(self) -> float:
        self._runner.run_named(LOOKUPS_JOB, lambda: lookups.run_due_lookups(self.context))
        # What was found may have files.
        self._scheduler.nudge(DOWNLOADS_JOB)
        with self.context.mirror_db.read() as connection:
            return self._next_run_at(LOOKUPS_JOB, lookup_queue.next_at(connection))

    def _run_downloads(self) -> float:
        if not self._downloads_prepared:
            download.prepare_downloads(self.context)
            self._downloads_prepared = True
        # A full disk raises, and no time is returned: the next run is IDLE_SECONDS away.
        self._runner.run_named(
            DOWNLOADS_JOB, lambda: download.download_due_files(self.context, self._should_continue)
        )
        kinds = download.list_enabled_kinds(self.context.settings)
        with self.context.mirror_db.read() as connection:
            return self._next_run_at(DOWNLOADS_JOB, media_files.next_at(connection, kinds))

    def _next_run_at(self, name: str, due_at: float | None) -> float:
        """The sooner of `due_at` and IDLE_SECONDS from now, but not before the back-off of `name` ends."""
        now = clock.unix()
        idle_until = now + IDLE_SECONDS
        return max(
            idle_until if due_at is None else min(due_at, idle_until),
            now + self._runner.backoff.seconds_left(name),
        )

    def _assemble_calls(self) -> None:
        call_assembly.assemble_pending(self.context, self._should_continue)

    def _scrub_archive(self) -> None:
        """What was damaged on our disk is fetched again."""
        if scrub.scrub_due_files(self.context, self._should_continue):
            self._scheduler.nudge(DOWNLOADS_JOB)

    def _keep_alive(self) -> None:
        self.context.platform.keep_alive()

    def _should_continue(self) -> bool:
        return not self._scheduler.stopping.is_set()

    def _on_recovery(self) -> None:
        log.info("the platform is back")
        self._scheduler.run_all_now()

    def _describe_outage(self) -> str | None:
        """For the health report: what is wrong while nothing works."""
        budget_state = self.context.platform.budget.state()
        if budget_state.open_since is None:
            return None
        return (
            f"nothing has worked since {clock.utc_text(budget_state.open_since)} UTC; "
            f"asked again in {budget_state.again:.0f} s"
        )

    def _report_budget(self) -> None:
        self.context.health.set_fact("platform_requests", asdict(self.context.platform.budget.state()))
