"""Background jobs that a button starts; at most one per name runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import current_app

from integration.core import clock
from integration.core.commands import Progress
from integration.core.errors import StorageError, SwitchroomError

log = logging.getLogger(__name__)

EXTENSION = "switchroom jobs"

ProgressCallback = Callable[[str, int, int], None]
"""Progress callback: name of the step, completed items, total items."""


NO_PROGRESS = Progress(lambda _: None, lambda: True)
"""Progress of a command that a form waits for."""


def make_progress(report: ProgressCallback, step: str = "") -> Progress:
    """Return the progress of a command, shown as that of a job.

    `step`: its name, for a command that sends none.
    """

    def send(facts: dict[str, Any]) -> None:
        name = f"/{facts['collection']}" if "collection" in facts else facts.get("doing", step)
        report(name, facts.get("done") or 0, facts.get("total") or 0)

    return Progress(send, lambda: True)


@dataclass(slots=True)
class Job:
    """Background job.

    `state` is 'running', 'done' or 'failed'; `result` is its result or error message. Times are UTC text.
    """

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
    """The last job of each name, in memory only.

    The audit log keeps the results.
    """

    last_by_name: dict[str, Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(
        self,
        name: str,
        started_by: str,
        work: Callable[[ProgressCallback], str],
        on_end: Callable[[Job], None],
    ) -> Job | None:
        """Start `work` on a new thread and return its job.

        Returns None if a job of this name is running. The job stores the text that `work` returns, or its
        error. `on_end` is called on that thread.
        """
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
            # No caller waits for this thread: without this the page would show the job as running for ever.
            log.exception("background job %s failed", job.name)
            job.result, job.state = f"{type(error).__name__}; see the log", "failed"
        job.ended_at = clock.utc_text()
        try:
            on_end(job)
        except StorageError as error:
            # At a stop the databases can be closed before the job ends.
            log.warning("the end of background job %s is not recorded: %s", job.name, error)


def current_jobs() -> BackgroundJobs:
    """Return the jobs of the application that serves the current request."""
    jobs: BackgroundJobs = current_app.extensions.setdefault(EXTENSION, BackgroundJobs())
    return jobs
