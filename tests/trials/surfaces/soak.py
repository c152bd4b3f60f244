"""Trial of hours of work with failures every few minutes."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import DATABASES, measure_wal, query_rows
from tests.trials.tools.traffic import Readers, Senders, SlowClients, create_access, lock_databases
from tests.trials.trial import Trial, await_new_worker, await_sync, kill_worker, until

MAX_SLOPE = 1.0
"""MB of anonymous memory that may be added in an hour, after WARM_UP_SECONDS.

Of each minute the lowest measurement counts, because syncs and pages take some MB for a moment. Memory that
is never freed raises the lowest one too.
"""
MAX_PEAK = 250.0
"""MB of memory at any time: anonymous memory, and each page of a mapped file once."""
WARM_UP_SECONDS, SHORT_HOURS, SHORT_GROWTH = 1800.0, 1.5, 4.0
"""Seconds in which caches fill; hours of measurement below which the noise of a few MB is more than an hour's
limit, so that SHORT_GROWTH MB may be added in total."""
SAMPLE_SECONDS = 1.0
"""Seconds between two measurements of memory. The lowest memory of a minute lasts for a few seconds only."""
KILL_CYCLE = 0
"""Number of the failure after which the worker is killed: early, because a new worker must warm up."""
FAULTS = (
    "status=503",
    "html",
    "drip=2",
    "malformed=json",
    "malformed=headers",
    "truncate",
    "hang=3",
    "hang=20",
    "status=429/5",
    "expire-token:0.3",
    "status=500:0.3",
    "slow=2",
    "short-page:0.3,double-row:0.3",
    "webhook-drop:0.5,webhook-duplicate:0.5,webhook-reorder:0.5",
)
"""Failures of the platform, in turn."""
LOCK_SECONDS = 1.0
DEAD_CLIENTS = 20
"""Senders, and live pages, that disconnect each time."""
CYCLES, FAILURES = 8, 3
"""Periods of failure in the short form, and failed responses in each."""
SHORT_WEBHOOKS, SHORT_RATE, SHORT_LIMIT = 1000, 200.0, 40.0
"""Webhooks of the short form, their number in a second, and the MB of memory that may be added by them."""
SENDERS = 4
PAGE = 1000
"""Records of a request to the platform."""
PAUSE_LIMIT = 600.0
"""Seconds within which every failed collection is requested again."""
POOL = "tokio-rt-worker"
"""Name of the threads of the server's pool, which grows and shrinks with the requests."""


@dataclass(frozen=True)
class Sample:
    """Resources of supervisor and worker at `at` (time.monotonic).

    `memory`: anonymous memory in MB, where a page that the worker got from the supervisor counts for each of
    both; `total`: all memory, each page counted once. `handles` by
    kind; `threads` without the server's pool; `streams`: open live streams; `log`: bytes of the longest
    write-ahead log.
    """

    at: float
    memory: float
    total: float
    handles: Counter[str]
    threads: int
    streams: int
    log: int

    def describe(self, begun: float) -> str:
        return (
            f"{(self.at - begun) / 60:.1f} min: {self.memory:.1f} MB anonymous, {self.total:.1f} MB, "
            f"{self.handles.total()} handles, "
            f"{self.threads} threads, {self.streams} streams, a log of {self.log / 2**20:.1f} MiB"
        )


class Soak(Trial):
    """Memory, file handles and threads do not grow in hours of failures.

    Disturbed: while webhooks arrive, calls happen at the platform and pages are read, every few minutes the
    platform fails or does not respond, the databases are locked by another process, senders disconnect in the
    middle of a body and live pages without closing their streams. The worker is killed once.
    Checked: the slope of the anonymous memory of supervisor and worker after half an hour; the peak of their
    memory, in which each page of a mapped file counts once; the last third of the handles and threads between
    failures against the first; every acknowledged event is stored once and applied; every CDR is stored.
    Detects: handles, threads and memory that are not released.
    """

    name = "soak"
    bugs, symptoms = ("leak_handles", "leak_webhooks"), ("handles", "threads", "memory")
    short = ("--short", "--short --seed-bug")
    long = LongForm(
        promises=("P28",),
        rounds=("--hours 2",),
        minutes=125,
        remains="eight hours: `python -m tests.trials soak`, not run",
        expectation="by hand: limits; simulator: keys",
    )
    kills = 0

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", "--hours", dest="hours", type=float, default=8.0)
        parser.add_argument("--rate", type=float, default=20.0, help="events a second")
        parser.add_argument("--fault-minutes", type=float, default=10.0, help="from one failure to the next")
        parser.add_argument(
            "--short", action="store_true", help="a few failures without a pause; CDRs are not checked"
        )

    def boot(self) -> None:
        self.simulator = self.start_simulator("--seed", "5", "--cdrs", "500", "--speed", "4")
        self.access = create_access(self.data_dir)
        self.product = self.start_product(
            self.data_dir, self.simulator, sync__recent_interval="2", sync__live_interval="2"
        )
        await_sync(self.product, "cdrs")

    def load(self) -> None:
        port, path = self.product.port, self.product.webhook_path
        self.simulator.control("POST", "webhook", {"url": self.product.url + path})
        # From 1: sender 0 has ids of the platform's calls.
        rate = SHORT_RATE if self.options.short else self.options.rate
        self.senders = Senders(port, path, count=SENDERS, rest=SENDERS / rate, first=1)
        self.readers = Readers(port, self.access.list_pages(), rest=1.0)
        self._read_at_once()

    def _read_at_once(self) -> None:
        """Read with more readers than later: what the product creates for each is reused afterwards."""
        crowd = Readers(self.product.port, self.access.list_pages() * 12, rest=0.0)
        until(lambda: len(crowd.responses) > 60, 60)
        crowd.stop()

    def disturb(self) -> None:
        if self.options.short:
            self._fail_at_once()
        else:
            self._fail_for_hours()
        self.senders.stop()
        self.readers.stop()

    def _fail_for_hours(self) -> None:
        cycle, begun = self.options.fault_minutes * 60, time.monotonic()
        samples, memory = list[Sample](), list[tuple[float, float, float]]()

        def wait_until(moment: float) -> None:
            """Measure the memory until `moment` (time.monotonic)."""
            while (left := moment - time.monotonic()) > 0:
                threading.Event().wait(min(left, SAMPLE_SECONDS))
                memory.append((time.monotonic(), *self._measure_memory()))

        while time.monotonic() < begun + self.options.hours * 3600 or len(samples) < 4:
            due = begun + len(samples) * cycle
            with self._fail(FAULTS[len(samples) % len(FAULTS)]):
                wait_until(due + cycle / 3)
            if len(samples) == KILL_CYCLE:
                self._kill_worker()
            wait_until(due + cycle)
            samples.append(self._measure())
            print(f"soak: {samples[-1].describe(begun)}", flush=True)
            lowest = _list_lowest([(at, anonymous) for at, anonymous, _ in memory if at >= due])
            print(f"soak: MB of each minute: {' '.join(f'{size:.1f}' for _, size in lowest)}", flush=True)
        warm_at = begun + min(WARM_UP_SECONDS, self.options.hours * 1800)
        slope = _compute_slope(
            _list_lowest([(at, anonymous) for at, anonymous, _ in memory if at >= warm_at])
        )
        hours = (memory[-1][0] - warm_at) / 3600
        limit = MAX_SLOPE if hours >= SHORT_HOURS - 0.1 else SHORT_GROWTH / hours
        self.verify(slope < limit, f"memory grows by less than {limit:.1f} MB an hour, not by {slope:.1f} MB")
        peak = max(total for _, _, total in memory)
        self.verify(peak <= MAX_PEAK, f"memory is at most {MAX_PEAK:.0f} MB, not {peak:.0f} MB")
        steady = [one for one in samples if one.at >= warm_at]
        for name, values in (
            ("handles", [one.handles.total() for one in steady]),
            ("threads", [one.threads for one in steady]),
        ):
            third = max(1, len(values) // 3)
            more = statistics.median(values[-third:]) - statistics.median(values[:third])
            self.verify(more <= max(4, third), f"{name} do not grow, not by {more:.0f}: {values}")
        streams = samples[-1].streams
        self.verify(streams == 0, f"streams of closed pages end, except {streams}")
        longest = max(one.log for one in samples)
        self.verify(longest <= WAL_LIMIT, f"no log exceeds 64 MiB, not {longest / 2**20:.0f}")
        self.figures.append(
            f"{len(samples)} failures, memory {slope:+.2f} MB an hour, limit {limit:.1f}; "
            f"peak {peak:.0f} MB, limit {MAX_PEAK:.0f}; "
            f"first {samples[0].describe(begun)}, last {samples[-1].describe(begun)}"
        )

    def _kill_worker(self) -> None:
        killed = kill_worker(self.product)
        await_new_worker(self.product, killed)
        self.kills += 1
        self._read_at_once()

    def _fail_at_once(self) -> None:
        """Let the platform fail without a pause; compare resources before and after."""
        self._fail_shortly()
        until(lambda: self._count_streams() == 0, 60)
        before = after = self._measure()
        sent = len(self.senders.responses)
        for _ in range(CYCLES):
            self._fail_shortly()
        wait_for(lambda: len(self.senders.responses) >= sent + SHORT_WEBHOOKS, "webhooks", 120)

        def has_released(count_resources: Callable[[Sample], int]) -> bool:
            nonlocal after
            after = self._measure()
            return count_resources(after) <= count_resources(before) + CYCLES // 2

        patience = 2 if self.is_seeded else 60

        def describe_handles() -> str:
            more = after.handles - before.handles
            return f"handles do not grow, not by {more.total()}: {more.most_common(5)}"

        self.verify_soon(lambda: has_released(lambda one: one.handles.total()), describe_handles, patience)
        self.verify_soon(
            lambda: has_released(lambda one: one.threads),
            lambda: f"threads do not grow, from {before.threads} to {after.threads}",
            patience,
        )
        grown = after.memory - before.memory
        self.verify(
            grown < SHORT_LIMIT, f"memory grows by less than {SHORT_LIMIT:.0f} MB, not by {grown:.0f} MB"
        )
        self.verify_soon(lambda: self._count_streams() == 0, "streams of closed pages end", 60)
        self.figures.append(
            f"{CYCLES} failures: {before.describe(before.at)}, then {after.describe(before.at)}"
        )

    def _fail_shortly(self) -> None:
        def count_failures() -> int:
            return sum(int(fault["happened"]) for fault in self.simulator.control("GET", "faults")["data"])

        with self._fail("status=500:0.3,truncate:0.2"):
            wait_for(lambda: count_failures() >= FAILURES, "failed responses", PAUSE_LIMIT)

    @contextmanager
    def _fail(self, fault: str) -> Iterator[None]:
        """Let the platform fail; clients that stopped sending disconnect at the end."""
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
            yield
        finally:
            clients.close()
            self.simulator.control("DELETE", "faults")

    def check(self) -> None:
        statuses = self.senders.statuses
        # A killed worker responds to none of the requests that it has received.
        cut = statuses.pop(0, 0)
        self.verify(cut <= self.kills * SENDERS, f"no webhook is cut off without a kill, not {cut}")
        self.verify(set(statuses) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(statuses)}")
        self.verify(statuses[200] > statuses.total() / 2, f"most webhooks get 200, not {dict(statuses)}")
        read = self.readers.statuses
        cut = read.pop(0, 0)
        pages = len(self.access.list_pages())
        self.verify(cut <= self.kills * pages, f"no page is cut off without a kill, not {cut}")
        self.verify(set(read) == {200}, f"every page gets 200, not {dict(read)}")
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        if not self.options.short:
            self._check_cdrs()
        self.figures.append(
            f"{len(self.senders.responses):,} webhooks, {len(self.readers.responses):,} pages"
        )

    def _check_cdrs(self) -> None:
        """Check that the mirror has the platform's CDRs, after all pauses."""
        listed = self._list_cdrs()
        sql = "SELECT id FROM cdrs WHERE _missing_since IS NULL"

        def find_missing() -> set[int]:
            return listed - {row[0] for row in query_rows(self.data_dir / "mirror.db", sql)}

        self.verify_soon(
            lambda: not find_missing(),
            lambda: f"each of {len(listed)} CDRs is stored, except {len(find_missing())}",
            PAUSE_LIMIT,
        )

    def _list_cdrs(self) -> set[int]:
        """Return the CDRs at the platform, to which more are added."""
        found: set[int] = set()
        simulator = self.simulator
        for page in count(1):
            path = f"{simulator.base}/cdrs?sort=id&dir=ASC&limit={PAGE}&page={page}"
            rows = simulator.client.json("GET", path, headers={"X-Auth-Token": simulator.api_key})["data"]
            found |= {row["id"] for row in rows}
            if len(rows) < PAGE:
                break
        return found

    def _measure(self) -> Sample:
        pids = self._list_processes()
        return Sample(
            time.monotonic(),
            *self._measure_memory(),
            sum(map(_count_handles, pids), Counter()),
            sum(map(_count_threads, pids)),
            self._count_streams(),
            max(measure_wal(self.data_dir, name) for name in DATABASES),
        )

    def _measure_memory(self) -> tuple[float, float]:
        """MB of anonymous memory, and of all memory."""
        measured = [_measure_process(pid) for pid in self._list_processes()]
        return sum(one[0] for one in measured) / 1024, sum(one[1] for one in measured) / 1024

    def _list_processes(self) -> list[int]:
        worker = self.product.worker
        return [self.product.pid, *([worker] if worker else [])]

    def _count_streams(self) -> int:
        text = self.product.client.send("GET", "/metrics")[1].decode()
        return int(float(re.findall(r"^switchroom_live_streams (\S+)", text, re.M)[0]))


def _compute_slope(samples: Sequence[tuple[float, float]]) -> float:
    """Megabytes an hour, from times in seconds and megabytes."""
    return 3600 * statistics.linear_regression(*zip(*samples, strict=True)).slope


def _list_lowest(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the lowest of the (time, size) within each complete minute."""
    begun = samples[0][0]
    minutes = groupby(samples, key=lambda one: (one[0] - begun) // 60)
    lowest = [min(minute, key=itemgetter(1)) for _, minute in minutes]
    # The end of the last minute, in which memory is released, may be missing.
    return lowest[:-1] or lowest


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
