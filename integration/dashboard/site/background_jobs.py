"""Work that a button begins and that takes longer than a request: one of each kind at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import current_app

from integration.core import clock
from integration.core.errors import SwitchroomError

log = logging.getLogger(__name__)

EXTENSION = "switchroom jobs"

Tell = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and the total."""


@dataclass(slots=True)
class Job:
    """`state` is 'running', 'done' or 'failed'; `said` its result or error in words. Times are UTC text."""

    name: str
    who: str
    begun_at: str
    state: str = "running"
    what: str = ""
    done: int = 0
    total: int = 0
    said: str = ""
    ended_at: str | None = None


@dataclass(slots=True)
class Jobs:
    """The last job of each kind. A restart forgets them: what they did is in the audit."""

    last: dict[str, Job] = field(default_factory=dict)
    commands: Mapping[str, Callable[..., dict[str, Any]]] = field(default_factory=dict)
    """Handlers of the private channel, by name (`processes/channel.py`)."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(
        self, name: str, who: str, work: Callable[[Tell], str], ended: Callable[[Job], None]
    ) -> Job | None:
        """Start `work` on a thread of its own; None if such a job is running. What it returns is said, and
        what it raises. `ended` is told on that thread."""
        with self._lock:
            running = self.last.get(name)
            if running is not None and running.state == "running":
                return None
            job = self.last[name] = Job(name, who, clock.stamp())
        threading.Thread(target=self._run, args=(job, work, ended), name=f"job {name}", daemon=True).start()
        return job

    def _run(self, job: Job, work: Callable[[Tell], str], ended: Callable[[Job], None]) -> None:
        def tell(what: str, done: int, total: int) -> None:
            job.what, job.done, job.total = what, done, total

        try:
            job.said = work(tell)
            job.state = "done"
        except SwitchroomError as error:
            job.said, job.state = str(error), "failed"
        except Exception as error:
            # Nobody waits for this thread: without this the page would show it running for ever.
            log.exception("%s failed", job.name)
            job.said, job.state = f"{type(error).__name__}; the log says more", "failed"
        job.ended_at = clock.stamp()
        ended(job)


def these_jobs() -> Jobs:
    """The jobs of the application that serves the present request."""
    jobs = current_app.extensions.setdefault(EXTENSION, Jobs())
    assert isinstance(jobs, Jobs)
    return jobs
