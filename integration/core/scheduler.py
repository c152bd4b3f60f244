"""Scheduler of all periodic jobs: the only module that imports APScheduler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from integration.core import clock
from integration.core.backoff import Backoff, doubling
from integration.core.errors import SwitchroomError
from integration.core.health import Health

log = logging.getLogger(__name__)

CLOCK_CHECK_SECONDS = 1.0
CLOCK_JUMP_SECONDS = 10.0
"""Difference between wall and monotonic clock, since the last check, that makes every job due."""

MIN_DELAY_SECONDS = 0.5
"""Shortest delay until a time that a job returned."""

EXECUTORS = {
    "timers": 1,
    "sync": 4,
    "full_sync": 1,
    "calls": 1,
    "downloads": 1,
    "exports": 2,
    "alerts": 4,
    "maintenance": 4,
}
"""Threads of each executor. A job that may run long shares no executor with `timers`."""

STALLED_AFTER_SECONDS = 60.0
"""Silence, beyond its interval, after which a watched job counts as stalled."""
RETRY_SECONDS = 1.0
"""Delay after the first failure of a watched job; it doubles up to the interval."""

WATCHDOG = "clockwork"
"""Name of the scheduler's health check."""
WATCHDOG_SECONDS = 30.0

Job = Callable[..., float | None]
"""A job returns the Unix time of its next run, or None: then its interval counts."""


class Scheduler:
    """Run jobs periodically, each at most once at a time. `start()` once; `stop()` is safe to call twice.

    An exception of `ignored_errors` ends a run without a result. `on_tick()` is called about every second, on
    the scheduler's watch thread.
    """

    def __init__(self, health: Health, *, ignored_errors: tuple[type[Exception], ...] = ()) -> None:
        self.stopping = threading.Event()
        self.on_tick: Callable[[], None] = lambda: None
        self._health = health
        self._ignored_errors = ignored_errors
        self._nudged: set[str] = set()
        self._backoffs: dict[str, Backoff] = {}
        self._logged_errors: dict[str, str] = {}
        self._apscheduler = _make_apscheduler()
        self._apscheduler.add_listener(self._on_job_end, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        self._watch_thread = threading.Thread(target=self._watch_clock, name="scheduler watch", daemon=True)

    def start(self) -> None:
        self._health.watch(WATCHDOG, WATCHDOG_SECONDS)
        self._apscheduler.start()
        self._watch_thread.start()

    def stop(self, timeout: float) -> None:
        """Start no more jobs; wait at most `timeout` seconds for those that run.

        A job that runs long has to watch `stopping`.
        """
        self.stopping.set()
        if not self._apscheduler.running:
            return
        # The shutdown of APScheduler waits without a limit.
        shutdown_thread = threading.Thread(
            target=self._apscheduler.shutdown, name="scheduler shutdown", daemon=True
        )
        shutdown_thread.start()
        shutdown_thread.join(timeout)
        self._watch_thread.join(max(0.0, timeout))
        if shutdown_thread.is_alive():
            log.warning("jobs are still under way after %s s", timeout)

    def every(
        self,
        name: str,
        seconds: float,
        job: Job,
        *arguments: object,
        executor: str,
        at_once: bool = True,
        is_watched: bool = False,
        retries: bool = False,
    ) -> None:
        """Run `job(*arguments)` every `seconds`. Its result and failure show in Health under `name`.

        A job that `is_watched` shows as stalled when it is silent for STALLED_AFTER_SECONDS too long. One
        that `retries` runs again sooner after a failure: after RETRY_SECONDS, then after twice as long, up
        to `seconds`.
        """
        if is_watched:
            self._health.watch(name, seconds + STALLED_AFTER_SECONDS)
        if retries:
            self._backoffs[name] = Backoff(doubling(RETRY_SECONDS, seconds))
        self._apscheduler.add_job(
            self.run_job,
            Every(seconds),
            args=(name, job, *arguments),
            id=name,
            name=name,
            executor=executor,
            replace_existing=True,
            next_run_time=_get_run_time() if at_once else _get_run_time(seconds),
        )

    def nudge(self, name: str) -> None:
        """Run job `name` at once, or again at the end of its present run. Quick; any thread."""
        self._nudged.add(name)
        self._reschedule(name, 0.0)

    def run_all_now(self) -> None:
        """Make every job due."""
        for job in self._apscheduler.get_jobs():
            self._reschedule(job.id, 0.0)

    def run_job(self, name: str, job: Job, *arguments: object) -> None:
        """Run `job(*arguments)` in this thread; store its result in Health. Raises nothing."""
        if self.stopping.is_set():
            return
        self._nudged.discard(name)
        try:
            next_at = job(*arguments)
        except self._ignored_errors:
            return
        except SwitchroomError as error:
            if not self.stopping.is_set():
                # Downloads are nudged by every webhook: on a full disk each would leave a line.
                if self._logged_errors.get(name) != str(error):
                    log.warning("%s: %s", name, error)
                self._logged_errors[name] = str(error)
                self._health.fail(name, error)
                self._retry(name)
        except Exception as error:
            log.exception("%s failed", name)
            self._health.fail(name, f"{type(error).__name__}: {error}")
            self._retry(name)
        else:
            self._logged_errors.pop(name, None)
            self._health.ok(name)
            if name in self._backoffs:
                self._backoffs[name].succeeded()
            if next_at is not None:
                self._reschedule(name, max(MIN_DELAY_SECONDS, next_at - clock.unix()))

    def _retry(self, name: str) -> None:
        if name in self._backoffs:
            self._reschedule(name, self._backoffs[name].failed())

    def _on_job_end(self, event: Any) -> None:
        """A job that was nudged while it ran could not start then; now it can."""
        if event.job_id in self._nudged:
            self._reschedule(event.job_id, 0.0)

    def _reschedule(self, name: str, seconds: float) -> None:
        if self.stopping.is_set():
            return
        try:
            self._apscheduler.modify_job(name, next_run_time=_get_run_time(seconds))
        except JobLookupError:
            log.debug("%s is not running yet", name)

    def _watch_clock(self) -> None:
        """APScheduler uses the wall clock: when that is set back, every job would wait that long."""
        offset = clock.unix() - clock.monotonic()
        while not self.stopping.wait(CLOCK_CHECK_SECONDS):
            jump = clock.unix() - clock.monotonic() - offset
            if abs(jump) > CLOCK_JUMP_SECONDS:
                log.warning("the clock jumped by %.0f s; every job is due anew", jump)
                offset += jump
                self.run_all_now()
            if self._apscheduler.running:
                self._health.beat(WATCHDOG)
            self.on_tick()


class Every(BaseTrigger):
    """Fire every `seconds`, and once after any number of missed fire times.

    `IntervalTrigger` returns each missed time, and APScheduler collects all of them under its lock before it
    coalesces them: 518,400 times and 6 s for a 5-second job after a clock that moved forward by 30 days.
    Raises ValueError unless `seconds` is above 0.
    """

    __slots__ = ("_interval",)

    def __init__(self, seconds: float) -> None:
        if seconds <= 0:
            raise ValueError(f"The interval of a job must be above 0 s, not {seconds} s.")
        self._interval = timedelta(seconds=seconds)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the first time after `now` that is a multiple of the interval after `previous_fire_time`."""
        if previous_fire_time is None:
            return now + self._interval
        missed = max(0, (now - previous_fire_time) // self._interval)
        return previous_fire_time + (missed + 1) * self._interval


def _make_apscheduler() -> Any:
    """APScheduler's scheduler (it has no types) with a thread pool for each of EXECUTORS."""
    # It warns whenever a job is due while it still runs, which is normal for a long full sync.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(  # type: ignore[no-untyped-call]
        timezone=UTC,
        executors={
            name: {"type": "threadpool", "max_workers": threads} for name, threads in EXECUTORS.items()
        },
        # Its own default drops a job that is a second late, silently.
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


def _get_run_time(seconds: float = 0.0) -> datetime:
    """By the clock that APScheduler reads, which tests do not move."""
    return datetime.now(UTC) + timedelta(seconds=seconds)
