"""Clocks of product and simulator that a trial moves.

Hours pass in seconds, and jobs run in their order.
"""

from __future__ import annotations

import datetime as calendar
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, EVENT_JOB_SUBMITTED
from apscheduler.executors import base as executors
from apscheduler.schedulers import base as schedulers
from apscheduler.schedulers.background import BackgroundScheduler

from integration.core import clock, scheduler

POLL_SECONDS = 0.02
"""Real seconds between two reads of the moved clock by the scheduler."""
MODULES: tuple[ModuleType, ...] = (schedulers, executors, scheduler)
"""Modules that read the time by `datetime`."""


class ObservedScheduler(BackgroundScheduler):
    """Scheduler that polls a moved clock, and reports whether it is idle."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.running_jobs = 0
        self.gate = threading.RLock()
        """While the lock is held no job starts, so that the clock does not move during a request."""
        self._count_lock = threading.Lock()

    def start(self, *arguments: Any, **options: Any) -> None:
        # Added last, so that a job which a listener of the product schedules at once is counted before.
        self.add_listener(lambda _event: self._count(1), EVENT_JOB_SUBMITTED)
        self.add_listener(
            lambda _event: self._count(-1), EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED
        )
        super().start(*arguments, **options)

    @property
    def is_idle(self) -> bool:
        """Whether no job is due or running."""
        with self.gate:
            now = schedulers.datetime.now(calendar.UTC)
            due = any(job.next_run_time and job.next_run_time <= now for job in self.get_jobs())
            return not due and not self.running_jobs

    def _count(self, change: int) -> None:
        with self._count_lock:
            self.running_jobs += change

    def _process_jobs(self) -> float:
        with self.gate:
            seconds: float | None = super()._process_jobs()
        return POLL_SECONDS if seconds is None else min(seconds, POLL_SECONDS)


@contextmanager
def observe_scheduler() -> Iterator[list[ObservedScheduler]]:
    """Make the product use an ObservedScheduler. Yields a list with it."""
    made: list[ObservedScheduler] = []

    def make(**options: Any) -> ObservedScheduler:
        made.append(ObservedScheduler(**options))
        return made[-1]

    with mock.patch.object(scheduler, "BackgroundScheduler", make):
        yield made


class MovedClock:
    """Context in which `advance` and `set_wall` move all clocks."""

    def __init__(self) -> None:
        self._unix, self._monotonic = clock.unix, clock.monotonic
        self.advanced = 0.0
        self.wall_offset = 0.0
        self._undo = ExitStack()

    def advance(self, seconds: float) -> None:
        self.advanced += seconds

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self.wall_offset += seconds

    def _read_wall(self) -> float:
        return self._unix() + self.advanced + self.wall_offset

    def _read_steady(self) -> float:
        return self._monotonic() + self.advanced

    def __enter__(self) -> MovedClock:
        moved = self

        class Moved(calendar.datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) + calendar.timedelta(seconds=moved.advanced + moved.wall_offset)

        patches = [mock.patch.object(module, "datetime", Moved) for module in MODULES]
        patches += [
            mock.patch.object(clock, "unix", self._read_wall),
            mock.patch.object(clock, "monotonic", self._read_steady),
        ]
        for patch in patches:
            self._undo.enter_context(patch)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()
