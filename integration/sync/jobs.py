"""The clockwork: which job runs when. APScheduler appears only here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from integration.core import clock
from integration.core.errors import PlatformError, StorageError
from integration.core.health import Health
from integration.mirror.sync_state import lookup_queue as wishes
from integration.mirror.sync_state import media_files as media
from integration.platform_api.circuit import Resting
from integration.platform_api.client import Platform
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync.backoff_runner import Attempts
from integration.sync.collection_jobs import Rounds
from integration.sync.context import Calls, Gear
from integration.sync.files import download as recordings
from integration.sync.files import scrub as inspection
from integration.sync.plan import growing, walked
from integration.sync.reading import call_assembly as backlog
from integration.sync.reading import deletions, lookups
from integration.sync.reading.page_store import Interrupted

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
JUMP_SECONDS = 10.0
"""The wall clock against the monotonic one between two looks: more is a jump, and every job is due anew."""

WALK_CHECK_SECONDS = 15.0
REREAD_CHECK_SECONDS = 60.0
PROOF_SECONDS = 300.0
KEEP_ALIVE_CHECK_SECONDS = 30.0
BACKLOG_CHECK_SECONDS = 5.0
IDLE_SECONDS = 60.0
"""How long look-ups and downloads sleep when nothing is arranged; a nudge wakes them sooner."""

LOOK_UPS = "look-ups"
DOWNLOADS = "downloads"
WATCHDOG = "clockwork"


class Clockwork:
    """Runs the jobs that keep the mirror true. `start()` once; `stop()` is safe to call twice."""

    def __init__(
        self, settings: Settings, mirror: Database, platform: Platform, calls: Calls, health: Health
    ) -> None:
        self.parts = Gear(settings, mirror, platform, health, calls)
        self._stopping = threading.Event()
        self._nudged = {LOOK_UPS: threading.Event(), DOWNLOADS: threading.Event()}
        self._attempts = Attempts(self.parts, self._stopping, self._back)
        self._rounds = Rounds(self.parts, self._attempts, self._stopping, partial(self._nudge, DOWNLOADS))
        self._prepared = False
        self._said: dict[str, str] = {}
        self._scheduler = _make_scheduler()
        self._scheduler.add_listener(self._ended, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        self._watchdog = threading.Thread(target=self._watch, name="clockwork watchdog", daemon=True)

    def start(self) -> None:
        sync, rounds = self.parts.settings.sync, self._rounds
        self.every("live calls", sync.live_interval, rounds.poll)
        for policy in growing():
            seconds = policy.look_back_seconds(self.parts.settings)
            self.every(f"look-back {policy.collection}", seconds, rounds.look_back, policy)
        check = min(WALK_CHECK_SECONDS, sync.full_interval)
        self.every("lists", check, rounds.walk_due, [policy for policy in walked() if policy.kind != "grows"])
        # Apart: the first walk of a big history takes minutes, and lists must not wait for it.
        self.every("walks", check, rounds.walk_due, growing(), executor="walks")
        self.every("re-reads", REREAD_CHECK_SECONDS, rounds.reread_due, executor="walks")
        self.every("proofs", PROOF_SECONDS, rounds.prove, executor="walks")
        self.every(backlog.NAME, BACKLOG_CHECK_SECONDS, self._put_together, executor="calls")
        self.every(LOOK_UPS, IDLE_SECONDS, self._look_up)
        self.every(DOWNLOADS, IDLE_SECONDS, self._download, executor="downloads")
        self.every("archive checks", inspection.RUN_SECONDS, self._inspect, executor="downloads")
        self.every("keep-alive", KEEP_ALIVE_CHECK_SECONDS, self._keep_alive)
        deletions.raise_alarms(self.parts)
        self.parts.health.watch(WATCHDOG, 30.0)
        self.parts.health.probe("platform credentials", lambda: self.parts.platform.trouble)
        self.parts.health.probe("platform", self._unanswered)
        self._scheduler.start()
        self._watchdog.start()

    def stop(self, timeout: float = 3.0) -> None:
        """End what is under way at its next commit, and wait for it at most `timeout` seconds.

        The platform's connections are cut: a request that hangs must not delay the end.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.parts.platform.close()
        if not self._scheduler.running:
            return
        # Waiting is done here: the scheduler's own wait has no end.
        ending = threading.Thread(target=self._scheduler.shutdown, name="clockwork ends", daemon=True)
        ending.start()
        ending.join(timeout)
        self._watchdog.join(max(0.0, timeout))
        if ending.is_alive():
            log.warning("jobs are still under way after %s s", timeout)

    def nudge(self) -> None:
        """Something new is wished for: look-ups and downloads run at once. Quick; any thread."""
        for name in (LOOK_UPS, DOWNLOADS):
            self._nudge(name)

    def every(
        self,
        name: str,
        seconds: float,
        job: Callable[..., None],
        *arguments: object,
        at_once: bool = True,
        executor: str = "default",
    ) -> None:
        """Run `job(*arguments)` every `seconds`, never twice at a time. Its failure shows in Health."""
        self._scheduler.add_job(
            self._run,
            "interval",
            seconds=seconds,
            args=(name, job, arguments),
            id=name,
            name=name,
            executor=executor,
            replace_existing=True,
            next_run_time=_moment() if at_once else _moment(seconds),
        )

    # --- jobs --------------------------------------------------------------------------------------

    def _run(self, name: str, job: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Around every job: its health, and no exception that ends nowhere."""
        if self._stopping.is_set():
            return
        try:
            job(*arguments)
        except (Interrupted, Resting):
            return
        except (PlatformError, StorageError) as error:
            if not self._stopping.is_set():
                # Downloads are nudged by every webhook: on a full disk each would leave a line.
                if self._said.get(name) != str(error):
                    log.warning("%s: %s", name, error)
                self._said[name] = str(error)
                self.parts.health.fail(name, error)
        except Exception as error:
            log.exception("%s failed", name)
            self.parts.health.fail(name, f"{type(error).__name__}: {error}")
        else:
            self._said.pop(name, None)
            self.parts.health.ok(name)

    def _look_up(self) -> None:
        self._nudged[LOOK_UPS].clear()
        self._attempts.named(LOOK_UPS, lambda: lookups.look_up(self.parts))
        # What was found may have files.
        self._nudge(DOWNLOADS)
        with self.parts.mirror.read() as connection:
            self._arrange(LOOK_UPS, wishes.next_at(connection))

    def _download(self) -> None:
        self._nudged[DOWNLOADS].clear()
        if not self._prepared:
            recordings.prepare(self.parts)
            self._prepared = True
        # A full disk raises, and nothing is arranged: the next look is IDLE_SECONDS away.
        self._attempts.named(DOWNLOADS, lambda: recordings.download_due(self.parts, self._wanted))
        with self.parts.mirror.read() as connection:
            self._arrange(DOWNLOADS, media.next_at(connection, recordings.enabled(self.parts.settings)))

    def _put_together(self) -> None:
        backlog.work_off(self.parts, self._wanted)

    def _inspect(self) -> None:
        """What was damaged on our disk is fetched again."""
        if inspection.inspect_due(self.parts, self._wanted):
            self._nudge(DOWNLOADS)

    def _keep_alive(self) -> None:
        self.parts.platform.keep_alive()

    def _wanted(self) -> bool:
        return not self._stopping.is_set()

    def _back(self) -> None:
        log.info("the platform is back")
        self._make_all_due()

    def _unanswered(self) -> str | None:
        """For the health report: what is wrong while nothing works."""
        standing = self.parts.platform.budget.standing()
        if standing.open_since is None:
            return None
        return (
            f"nothing has worked since {clock.stamp(standing.open_since)} UTC; "
            f"asked again in {standing.again:.0f} s"
        )

    # --- time --------------------------------------------------------------------------------------

    def _arrange(self, name: str, at: float | None) -> None:
        """Run job `name` at `at` (Unix seconds) or after IDLE_SECONDS, whichever is sooner, but not while it
        has to rest."""
        seconds = IDLE_SECONDS if at is None else min(IDLE_SECONDS, max(0.5, at - clock.unix()))
        self._next_run(name, max(seconds, self._attempts.backoff.seconds_left(name)))

    def _nudge(self, name: str) -> None:
        self._nudged[name].set()
        self._next_run(name, 0.0)

    def _ended(self, event: Any) -> None:
        """A job that was nudged while it ran could not start then; now it can."""
        nudged = self._nudged.get(event.job_id)
        if nudged is not None and nudged.is_set():
            self._next_run(event.job_id, 0.0)

    def _next_run(self, name: str, seconds: float) -> None:
        if self._stopping.is_set():
            return
        try:
            self._scheduler.modify_job(name, next_run_time=_moment(seconds))
        except JobLookupError:
            log.debug("%s is not running yet", name)

    def _make_all_due(self) -> None:
        for job in self._scheduler.get_jobs():
            self._next_run(job.id, 0.0)

    def _watch(self) -> None:
        """APScheduler reckons by the wall clock: when that is set back, every job would wait that long."""
        offset = clock.unix() - clock.monotonic()
        while not self._stopping.wait(WATCH_SECONDS):
            moved = clock.unix() - clock.monotonic() - offset
            if abs(moved) > JUMP_SECONDS:
                log.warning("the clock jumped by %.0f s; every job is due anew", moved)
                offset += moved
                self._make_all_due()
            if self._scheduler.running:
                self.parts.health.beat(WATCHDOG)
            self.parts.health.fact("platform_requests", asdict(self.parts.platform.budget.standing()))


def _make_scheduler() -> Any:
    """APScheduler's (it has no types), with a worker each for what lasts beside the others."""
    # It warns whenever a job is due while it still runs, which is how a long walk looks.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(  # type: ignore[no-untyped-call]
        timezone=UTC,
        executors={
            name: {"type": "threadpool", "max_workers": workers}
            for name, workers in (("default", 4), ("walks", 1), ("calls", 1), ("downloads", 1))
        },
        # Its own default drops a job that is a second late, silently.
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


def _moment(seconds: float = 0.0) -> datetime:
    """By the clock that APScheduler reads, which is not ours to move."""
    return datetime.now(UTC) + timedelta(seconds=seconds)
