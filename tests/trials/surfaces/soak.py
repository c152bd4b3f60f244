"""Trial of hours of work with failures every few minutes."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import wait_for
from tests.trials.tools.databases import DATABASES, measure_wal
from tests.trials.tools.traffic import Readers, Senders, SlowClients, create_access, lock_databases
from tests.trials.trial import Trial, await_new_worker, await_sync, kill_worker, until

MAX_SLOPE = 1.0
"""MB of anonymous memory that may be added in an hour, after WARM_UP_SECONDS.

Between two failures the lowest measurement counts, because syncs and pages take some MB for a moment. Memory
that is never freed raises the lowest one too.
"""
MAX_PEAK = 250.0
"""MB of memory at any time: anonymous memory, and each page of a mapped file once."""
WARM_UP_SECONDS, MIN_HOURS, NOISE = 1800.0, 1.4, 4.0
"""Seconds in which caches fill; hours of measurement below which NOISE MB may be added, because the noise is
more than the limit."""
SAMPLE_SECONDS = 1.0
"""Seconds between two measurements of memory. The lowest memory lasts for a few seconds only."""
FAULTS = (
    "status=500:0.3,truncate:0.2",
    "status=503",
    "html",
    "drip=2",
    "malformed=json",
    "malformed=headers",
    "hang=3",
    "hang=20",
    "status=429/5",
    "expire-token:0.3",
    "slow=2",
    "short-page:0.3,double-row:0.3",
    "webhook-drop:0.5,webhook-duplicate:0.5,webhook-reorder:0.5",
)
"""Failures of the platform, in turn."""
LOCK_SECONDS = 1.0
DEAD_CLIENTS = 20
"""Senders, and live pages, that disconnect each time."""
SHORT_CYCLES, SHORT_FAILURES, SHORT_WEBHOOKS, SHORT_RATE, SHORT_GROWTH = 8, 3, 1000, 200.0, 40.0
"""The short form: periods of failure, failed responses in each, webhooks and their number in a second, and
the MB of memory that may be added by them."""
RELEASED = 4
"""Handles, and threads, that may be more than at first."""
SENDERS = 4
POOL = "tokio-rt-worker"
"""Name of the threads of the server's pool, which grows and shrinks with the requests."""


@dataclass(frozen=True)
class Sample:
    """Resources of supervisor and worker at `at` (time.monotonic).

    `memory`: lowest anonymous memory in MB since the last failure, where a page that the worker got from the
    supervisor counts for each of both; `handles` by kind; `threads` without the server's pool; `log`: bytes
    of the longest write-ahead log.
    """

    at: float
    memory: float
    handles: Counter[str]
    threads: int
    log: int

    def count_handles(self) -> int:
        return self.handles.total()

    def count_threads(self) -> int:
        return self.threads

    def __str__(self) -> str:
        return f"{self.memory:.1f} MB, {self.threads} threads, {self.count_handles()} handles"


class Soak(Trial):
    """Memory, file handles and threads do not grow in hours of failures.

    Disturbed: while webhooks arrive, calls happen at the platform and pages are read, every few minutes the
    platform fails or does not respond, the databases are locked by another process, senders disconnect in the
    middle of a body and live pages without closing their streams. The worker is killed once.
    Checked: the slope of the anonymous memory of supervisor and worker after half an hour; the peak of their
    memory, in which each page of a mapped file counts once; handles, threads and streams after the failures;
    every acknowledged event is stored once and applied.
    Detects: handles, threads and memory that are not released.
    """

    name = "soak"
    bugs, symptoms = ("leak_handles", "leak_webhooks"), ("handles", "threads", "memory")
    short = ("--short", "--short --seed-bug")
    promises = ("P28",)
    long = ("--hours 2",)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", "--hours", dest="hours", type=float, default=8.0)
        parser.add_argument("--rate", type=float, default=20.0, help="events a second")
        parser.add_argument("--fault-minutes", type=float, default=10.0, help="from one failure to the next")
        parser.add_argument("--short", action="store_true", help="a few failures without a pause")

    def boot(self) -> None:
        self.simulator = self.start_simulator("--seed", "5", "--cdrs", "500", "--speed", "4")
        self.access = create_access(self.data_dir)
        self.product = self.start_product(
            self.data_dir, self.simulator, sync__recent_interval="2", sync__live_interval="2"
        )
        await_sync(self.product, "cdrs")
        self.peak = 0.0

    def load(self) -> None:
        port, path = self.product.port, self.product.webhook_path
        self.simulator.control("POST", "webhook", {"url": self.product.url + path})
        # From 1: sender 0 has ids of the platform's calls.
        rate = SHORT_RATE if self.options.short else self.options.rate
        self.senders = Senders(port, path, count=SENDERS, rest=SENDERS / rate, first=1)
        self.readers = Readers(port, self.access.list_pages(), rest=1.0)

    def disturb(self) -> None:
        is_short, cycle = self.options.short, self.options.fault_minutes * 60
        begun, samples = time.monotonic(), list[Sample]()
        if not is_short:  # Early, because a new worker must warm up.
            await_new_worker(self.product, kill_worker(self.product))
        self._read_at_once()
        self._fail(FAULTS[0], 0.0)
        until(lambda: not self._count_streams(), 60)
        while len(samples) < SHORT_CYCLES or (
            not is_short and time.monotonic() < begun + self.options.hours * 3600
        ):
            due = time.monotonic() + (0.0 if is_short else cycle)
            if samples:
                self._fail(
                    FAULTS[0 if is_short else len(samples) % len(FAULTS)], 0.0 if is_short else cycle / 3
                )
            samples.append(self._measure(due))
            print(f"soak: {(samples[-1].at - begun) / 60:.1f} min: {samples[-1]}", flush=True)
        sent = len(self.senders.responses)
        wait_for(lambda: len(self.senders.responses) >= sent + SHORT_WEBHOOKS, "webhooks", 600)
        self._check_released(samples, begun)
        self.senders.stop()
        self.readers.stop()

    def _read_at_once(self) -> None:
        """Read with more readers than later: what the product creates for each is reused afterwards."""
        crowd = Readers(self.product.port, self.access.list_pages() * 12, rest=0.0)
        until(lambda: len(crowd.responses) > 60, 60)
        crowd.stop()

    def _check_released(self, samples: list[Sample], begun: float) -> None:
        warm = [one for one in samples if self.options.short or one.at >= begun + WARM_UP_SECONDS] or samples
        last = self._measure(0.0)
        hours = (last.at - warm[0].at) / 3600
        slope = _compute_slope([(one.at, one.memory) for one in (*warm, last)])
        limit = MAX_SLOPE * hours if hours >= MIN_HOURS else SHORT_GROWTH if self.options.short else NOISE
        grown = last.memory - warm[0].memory if self.options.short else slope * hours
        self.verify(grown < limit, f"memory grows by less than {limit:.1f} MB, not by {grown:.1f} MB")
        self.verify(self.peak <= MAX_PEAK, f"memory is at most {MAX_PEAK:.0f} MB, not {self.peak:.0f} MB")

        def list_more() -> list[tuple[str, int]]:
            return (self._measure(0.0).handles - warm[0].handles).most_common(5)

        for what, count in (("handles", Sample.count_handles), ("threads", Sample.count_threads)):
            self.verify_soon(
                lambda count=count: count(self._measure(0.0)) <= count(warm[0]) + RELEASED,
                lambda what=what: (
                    f"{what} do not grow, from {warm[0]} to {self._measure(0.0)}: {list_more()}"
                ),
                2 if self.is_seeded else 60,
            )
        self.verify_soon(lambda: self._count_streams() == 0, "streams of closed pages end", 60)
        longest = max(one.log for one in samples)
        self.verify(longest <= WAL_LIMIT, f"no log exceeds 64 MiB, not {longest / 2**20:.0f}")
        self.figures.append(
            f"{len(samples)} failures in {(last.at - begun) / 3600:.1f} hours, memory {grown:+.2f} MB, limit"
            f" {limit:.1f}; peak {self.peak:.0f} MB, limit {MAX_PEAK:.0f}; first {warm[0]}, last {last}"
        )

    def _fail(self, fault: str, seconds: float) -> None:
        """Let the platform fail for `seconds`, and until some responses failed.

        Clients that stopped sending disconnect at the end.
        """

        def count_failures() -> int:
            return sum(int(one["happened"]) for one in self.simulator.control("GET", "faults")["data"])

        self.simulator.control("POST", "faults", {"spec": fault})
        host = f"HTTP/1.1\r\nHost: 127.0.0.1:{self.product.port}\r\n"
        cookie = self.access.dashboard["Cookie"]
        openings = [
            f'POST {self.product.webhook_path} {host}Content-Length: 500\r\n\r\n{{"id":'.encode(),
            f"GET /live/stream {host}Cookie: {cookie}\r\n\r\n".encode(),
        ]
        clients = SlowClients(self.product.port, openings, 2 * DEAD_CLIENTS, drips=False)
        try:
            with lock_databases(self.data_dir, DATABASES):
                threading.Event().wait(LOCK_SECONDS)
            threading.Event().wait(seconds)
            wait_for(lambda: count_failures() >= SHORT_FAILURES, "failed responses", 600)
        finally:
            clients.close()
            self.simulator.control("DELETE", "faults")

    def check(self) -> None:
        statuses = self.senders.statuses
        # A killed worker responds to none of the requests that it has received.
        cut = statuses.pop(0, 0)
        self.verify(cut <= SENDERS, f"no webhook is cut off but by the kill, not {cut}")
        self.verify(set(statuses) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(statuses)}")
        self.verify(statuses[200] > statuses.total() / 2, f"most webhooks get 200, not {dict(statuses)}")
        read = self.readers.statuses
        cut = read.pop(0, 0)
        pages = len(self.access.list_pages())
        self.verify(cut <= pages, f"no page is cut off but by the kill, not {cut}")
        self.verify(set(read) == {200}, f"every page gets 200, not {dict(read)}")
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        self.figures.append(
            f"{len(self.senders.responses):,} webhooks, {len(self.readers.responses):,} pages"
        )

    def _measure(self, until_moment: float) -> Sample:
        """Measure resources; the memory until a moment (time.monotonic), at least once."""
        lowest = self._measure_memory()
        while (left := until_moment - time.monotonic()) > 0:
            threading.Event().wait(min(left, SAMPLE_SECONDS))
            lowest = min(lowest, self._measure_memory())
        pids = self._list_processes()
        return Sample(
            time.monotonic(),
            lowest,
            sum(map(_count_handles, pids), Counter()),
            sum(map(_count_threads, pids)),
            max(measure_wal(self.data_dir, name) for name in DATABASES),
        )

    def _measure_memory(self) -> float:
        """Return the MB of anonymous memory. The peak of all memory is kept."""
        measured = [_measure_process(pid) for pid in self._list_processes()]
        self.peak = max(self.peak, sum(one[1] for one in measured) / 1024)
        return sum(one[0] for one in measured) / 1024

    def _list_processes(self) -> list[int]:
        worker = self.product.worker
        return [self.product.pid, *([worker] if worker else [])]

    def _count_streams(self) -> int:
        text = self.product.client.send("GET", "/metrics")[1].decode()
        return int(float(re.findall(r"^switchroom_live_streams (\S+)", text, re.M)[0]))


def _compute_slope(samples: list[tuple[float, float]]) -> float:
    """Megabytes an hour, from times in seconds and megabytes."""
    return 3600 * statistics.linear_regression(*zip(*samples, strict=True)).slope


def _measure_process(pid: int) -> tuple[int, int]:
    """Anonymous memory and all memory in KB.

    A page that both processes share since the fork counts as anonymous memory of each, so that a later copy
    of it is no growth; in all memory it counts once, as do pages of files that several connections map.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):  # The worker was killed.
        return 0, 0
    sizes = dict(re.findall(r"^(Pss|Anonymous):\s+(\d+)", text, re.M))
    return int(sizes["Anonymous"]), int(sizes["Pss"])


def _count_threads(pid: int) -> int:
    found = 0
    for task in os.scandir(f"/proc/{pid}/task"):
        with suppress(OSError):  # The thread has ended.
            found += Path(task.path, "comm").read_text().strip() != POOL
    return found


def _count_handles(pid: int) -> Counter[str]:
    found = Counter[str]()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # It was closed.
            found[re.sub(r"\d+", "", os.readlink(entry.path))] += 1
    return found
