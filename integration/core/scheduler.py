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

from integration.core import clock, retry_delays
from integration.core.backoff import Backoff, doubling
from integration.core.errors import SwitchroomError
from integration.core.health import Health

log = logging.getLogger(__name__)

CLOCK_CHECK_SECONDS = 1.0
"""Seconds between two comparisons of wall clock and monotonic clock."""
CLOCK_JUMP_SECONDS = 10.0
"""Seconds of deviation from the monotonic clock above which every job is due."""

MIN_DELAY_SECONDS = 0.5
"""Minimum seconds until the next run that a job returned."""

EXECUTORS = {
    "timers": 1,
    "sync": 4,
    "full_sync": 1,
    "downloads": 1,
    "exports": 1,
    "alerts": 4,
    "texts": 1,
    "maintenance": 4,
}
"""Threads of each executor. Jobs that may run long must not use `timers`."""

STALLED_AFTER_SECONDS = 60.0
"""Seconds of a missing heartbeat, beyond the interval, that make a watched job stalled."""

WATCHDOG = "clockwork"
"""Name of the scheduler's health check."""
WATCHDOG_SECONDS = 30.0
"""Seconds without a heartbeat after which the scheduler counts as stalled."""

Job = Callable[..., float | None]
"""Job function. Returns the Unix time of the next run, or None."""


class Scheduler:
    """Run jobs periodically, each at most once at a time.

    Call `start()` once; `stop()` is safe to call twice. An exception of `ignored_errors` ends a run without a
    result. `on_tick()` is called about every second, on the scheduler's watch thread.
    """

    def __init__(self, health: Health, *, ignored_errors: tuple[type[Exception], ...] = ()) -> None:
        self.stopping = threading.Event()
        self.on_tick: Callable[[], None] = lambda: None
        self._health = health
        self._ignored_errors = ignored_errors
        self._nudged: set[str] = set()
        self._backoffs: dict[str, Backoff] = {}
        self._apscheduler = _make_apscheduler()
        self._apscheduler.add_listener(self._on_job_end, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        self._watch_thread = threading.Thread(target=self._watch_clock, name="scheduler watch", daemon=True)

    def start(self) -> None:
        self._health.watch(WATCHDOG, WATCHDOG_SECONDS)
        self._apscheduler.start()
        self._watch_thread.start()

    def stop(self, timeout: float) -> None:
        """Start no more jobs and wait for running jobs.

        `timeout`: maximum wait in seconds. A long job must check `stopping`.
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
            log.warning("jobs are still running after %s s", timeout)

    def every(
        self,
        name: str,
        seconds: float,
        job: Job,
        *arguments: object,
        executor: str,
        first_after: float = 0.0,
        is_watched: bool = False,
        retries: bool = False,
    ) -> None:
        """Run `job(*arguments)` every `seconds` and report its results to Health as `name`.

        The first run starts after `first_after` seconds. `is_watched`: the health check is stalled
        `seconds` + STALLED_AFTER_SECONDS after the last heartbeat. `retries`: retry a failed run after
        FIRST_OF_JOBS seconds, then after twice as long, up to `seconds`.
        """
        if is_watched:
            self._health.watch(name, seconds + STALLED_AFTER_SECONDS)
        if retries:
            self._backoffs[name] = Backoff(doubling(retry_delays.FIRST_OF_JOBS, seconds))
        self._apscheduler.add_job(
            self.run_job,
            Every(seconds),
            args=(name, job, *arguments),
            id=name,
            name=name,
            executor=executor,
            replace_existing=True,
            next_run_time=_get_run_time(first_after),
        )

    def nudge(self, name: str) -> None:
        """Run job `name` at once, or when its current run ends.

        Does not block; callable from any thread.
        """
        self._nudged.add(name)
        self._reschedule(name, 0.0)

    def run_all_now(self) -> None:
        """Make every job due."""
        # The shutdown of APScheduler holds the lock of its jobs while it waits for the running ones.
        if self.stopping.is_set():
            return
        for job in self._apscheduler.get_jobs():
            self._reschedule(job.id, 0.0)

    def run_job(self, name: str, job: Job, *arguments: object) -> None:
        """Run `job(*arguments)` in this thread and report the result to Health.

        Raises nothing.
        """
        if self.stopping.is_set():
            return
        self._nudged.discard(name)
        try:
            next_at = job(*arguments)
        except self._ignored_errors:
            return
        except SwitchroomError as error:
            if not self.stopping.is_set():
                log.warning("%s: %s", name, error)
                self._health.fail(name, error)
                self._retry(name)
        except Exception as error:
            log.exception("%s failed", name)
            self._health.fail(name, f"{type(error).__name__}: {error}")
            self._retry(name)
        else:
            self._health.ok(name)
            if name in self._backoffs:
                self._backoffs[name].succeeded()
            if next_at is not None:
                self._reschedule(name, max(MIN_DELAY_SECONDS, next_at - clock.unix()))

    def _retry(self, name: str) -> None:
        if name in self._backoffs:
            self._reschedule(name, self._backoffs[name].failed())

    def _on_job_end(self, event: Any) -> None:
        """Start a job that was nudged during its run."""
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
        """Make every job due when the wall clock is set.

        APScheduler uses the wall clock: when it is set back, every job would wait for that time. The method
        also records the scheduler's heartbeat and calls `on_tick()`.
        """
        offset = clock.unix() - clock.monotonic()
        while not self.stopping.wait(CLOCK_CHECK_SECONDS):
            jump = clock.unix() - clock.monotonic() - offset
            if abs(jump) > CLOCK_JUMP_SECONDS:
                log.warning("system clock jumped by %.0f s; running all jobs", jump)
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
        """Return the first time after `now` in steps from `previous_fire_time`."""
        if previous_fire_time is None:
            return now + self._interval
        missed = max(0, (now - previous_fire_time) // self._interval)
        return previous_fire_time + (missed + 1) * self._interval


def _make_apscheduler() -> Any:
    """Return an APScheduler with a thread pool for each of EXECUTORS.

    The result is `Any`, because the library has no types.
    """
    # APScheduler warns when a job is due while it still runs, which is normal for a long full sync.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    return BackgroundScheduler(  # type: ignore[no-untyped-call]
        timezone=UTC,
        executors={
            name: {"type": "threadpool", "max_workers": threads} for name, threads in EXECUTORS.items()
        },
        # The default `misfire_grace_time` drops a run that is 1 s late, without a message.
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )


def _get_run_time(seconds: float = 0.0) -> datetime:
    """Return the time in `seconds`, by the clock of APScheduler.

    Tests replace only the clock of `core/clock.py`.
    """
    return datetime.now(UTC) + timedelta(seconds=seconds)
