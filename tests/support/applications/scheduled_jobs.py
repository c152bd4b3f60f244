"""Sync jobs with a scheduler of their own."""

from __future__ import annotations

from integration.core.health import Health
from integration.core.scheduler import Scheduler
from integration.mirror.calls.store import CallStore
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync import jobs
from integration.sync.jobs import SyncJobs


class ScheduledJobs:
    """Sync jobs and their scheduler, without the rest of the product."""

    def __init__(
        self,
        settings: Settings,
        mirror_db: Database,
        platform: Platform,
        call_store: CallStore,
        health: Health,
    ) -> None:
        self.platform = platform
        self.scheduler = Scheduler(health, ignored_errors=jobs.IGNORED_ERRORS)
        self.sync_jobs = SyncJobs(settings, mirror_db, platform, call_store, health, self.scheduler)

    def start(self) -> None:
        self.sync_jobs.schedule()
        self.scheduler.start()

    def stop(self, timeout: float = 3.0) -> None:
        self.scheduler.stopping.set()
        self.platform.close()
        self.scheduler.stop(timeout)
