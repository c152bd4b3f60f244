"""Queue of a writer: live jobs before bulk jobs.

Live jobs serve webhooks and users. A bulk job consists of steps and may take long. Between two groups of live
jobs one transaction of the first bulk job runs; it ends after the step during which a live job arrives. A
live job therefore waits for one step at most, and bulk jobs always advance. While requests read, one step
runs every PAUSE_SECONDS.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Iterator

from integration.core import clock
from integration.sqlite import live_reads
from integration.sqlite.write_jobs import Job, bulk_marker

PAUSE_SECONDS = 0.1
"""Seconds between the starts of two steps of bulk jobs while requests read. A step takes half as long."""
POLL_SECONDS = 0.005
"""Seconds between two checks whether reads of requests have ended."""


class JobQueue:
    """Queue of jobs. Only the writer thread takes jobs."""

    def __init__(self, group_size: int) -> None:
        self._group_size = group_size
        # Bulk jobs arrive in the same queue: waiting for two queues would need a lock for each live job.
        self._arrived: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._bulk: deque[Job] = deque()
        self._is_turn_of_bulk = False
        self._pause = threading.Event()
        self._pause_until = 0.0
        """Time of the monotonic clock at which a step of the first bulk job runs although requests read."""

    def put(self, job: Job) -> None:
        self._arrived.put(job)

    def put_end(self) -> None:
        """Queue the end marker. No job may follow it."""
        self._arrived.put(None)

    @property
    def has_arrivals(self) -> bool:
        """Whether a job or the end marker has arrived since `take_group`."""
        return not self._arrived.empty()

    @property
    def must_bulk_yield(self) -> bool:
        """Whether a job waits or a request reads."""
        return self.has_arrivals or live_reads.is_any_running()

    def take_group(self) -> list[Job] | None:
        """Return the next live jobs, oldest first, or one bulk job.

        A bulk job stays queued. Waits for a job. Returns None at the end marker, after all jobs.
        """
        while True:
            if self._bulk and self._is_turn_of_bulk and not self._must_bulk_pause:
                return self._take_bulk()
            jobs, is_end = self._collect()
            if jobs:
                self._is_turn_of_bulk = True
                return jobs
            if self._bulk:
                if not is_end and self._pause_for_reads():
                    continue
                return self._take_bulk()
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

    @property
    def _must_bulk_pause(self) -> bool:
        return live_reads.is_any_running() and clock.monotonic() < self._pause_until

    def _pause_for_reads(self) -> bool:
        """Wait while requests read; return whether a job has arrived."""
        while self._must_bulk_pause and not self.has_arrivals:
            self._pause.wait(POLL_SECONDS)
        return self.has_arrivals

    def _take_bulk(self) -> list[Job]:
        self._is_turn_of_bulk = False
        self._pause_until = clock.monotonic() + PAUSE_SECONDS
        return [self._bulk[0]]

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
                if not self._bulk:
                    self._pause_until = clock.monotonic() + PAUSE_SECONDS
                self._bulk.append(job)
            else:
                jobs.append(job)
        return jobs, False
