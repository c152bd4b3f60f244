"""Background jobs that a button starts: one of each kind at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from flask import current_app

from integration.core import clock
from integration.core.errors import SwitchroomError

log = logging.getLogger(__name__)

EXTENSION = "switchroom jobs"

ProgressCallback = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and the total."""


@dataclass(slots=True)
class Job:
    """`state` is 'running', 'done' or 'failed'; `result` its result or error in words. Times are UTC text."""

    name: str
    started_by: str
    started_at: str
    state: str = "running"
    step: str = ""
    done: int = 0
    total: int = 0
    result: str = ""
    ended_at: str | None = None


@dataclass(slots=True)
class BackgroundJobs:
    """The last job of each kind, in memory only: the audit log records what they did."""

    last_by_name: dict[str, Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(
        self,
        name: str,
        started_by: str,
        work: Callable[[ProgressCallback], str],
        on_end: Callable[[Job], None],
    ) -> Job | None:
        """Start `work` on a thread of its own; None if such a job is running. What it returns is said, and
        what it raises. `on_end` is told on that thread."""
        with self._lock:
            previous = self.last_by_name.get(name)
            if previous is not None and previous.state == "running":
                return None
            job = self.last_by_name[name] = Job(name, started_by, clock.utc_text())
        threading.Thread(target=self._run, args=(job, work, on_end), name=f"job {name}", daemon=True).start()
        return job

    def _run(self, job: Job, work: Callable[[ProgressCallback], str], on_end: Callable[[Job], None]) -> None:
        def report_progress(step: str, done: int, total: int) -> None:
            job.step, job.done, job.total = step, done, total

        try:
            job.result = work(report_progress)
            job.state = "done"
        except SwitchroomError as error:
            job.result, job.state = str(error), "failed"
        except Exception as error:
            # Nobody waits for this thread: without this the page would show it running for ever.
            log.exception("%s failed", job.name)
            job.result, job.state = f"{type(error).__name__}; the log says more", "failed"
        job.ended_at = clock.utc_text()
        on_end(job)


def current_jobs() -> BackgroundJobs:
    """The jobs of the application that serves the present request."""
    jobs = current_app.extensions.setdefault(EXTENSION, BackgroundJobs())
    assert isinstance(jobs, BackgroundJobs)
    return jobs
