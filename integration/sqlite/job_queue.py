"""Queue of a writer: live jobs before bulk jobs.

Live jobs serve webhooks and users. A bulk job consists of steps and may take long. Between two groups of live
jobs one transaction of the first bulk job runs; it ends after the step during which a live job arrives. A
live job therefore waits for one step at most, and bulk jobs always advance.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator

from integration.sqlite.write_jobs import Job, bulk_marker


class JobQueue:
    """Queue of jobs. Only the writer thread takes jobs."""

    def __init__(self, group_size: int) -> None:
        self._group_size = group_size
        # Bulk jobs arrive in the same queue: waiting for two queues would need a lock for each live job.
        self._arrived: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._bulk: deque[Job] = deque()
        self._is_turn_of_bulk = False

    def put(self, job: Job) -> None:
        self._arrived.put(job)

    def put_end(self) -> None:
        """Queue the end marker. No job may follow it."""
        self._arrived.put(None)

    @property
    def has_arrivals(self) -> bool:
        """Whether a job or the end marker has arrived since `take_group`."""
        return not self._arrived.empty()

    def take_group(self) -> list[Job] | None:
        """Return the next live jobs, oldest first, or one bulk job.

        A bulk job stays queued. Waits for a job. Returns None at the end marker, after all jobs.
        """
        while True:
            if self._bulk and self._is_turn_of_bulk:
                self._is_turn_of_bulk = False
                return [self._bulk[0]]
            jobs, is_end = self._collect()
            if jobs:
                self._is_turn_of_bulk = True
                return jobs
            if self._bulk:
                self._is_turn_of_bulk = False
                return [self._bulk[0]]
            if is_end:
                return None

    def remove_bulk(self) -> None:
        """Remove the first bulk job, because it has ended."""
        self._bulk.popleft()

    def drain(self) -> Iterator[Job]:
        """Remove and yield all jobs."""
        while self._bulk:
            yield self._bulk.popleft()
        while True:
            try:
                job = self._arrived.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                yield job

    def _collect(self) -> tuple[list[Job], bool]:
        """Return the live jobs that arrived, and whether the end marker did.

        Waits for a job if none is queued.
        """
        jobs: list[Job] = []
        may_wait = not self._bulk
        while len(jobs) < self._group_size:
            try:
                job = self._arrived.get(block=may_wait)
            except queue.Empty:
                return jobs, False
            may_wait = False
            if job is None:
                self._arrived.put(None)
                return jobs, True
            if job.work is bulk_marker:
                self._bulk.append(job)
            else:
                jobs.append(job)
        return jobs, False
