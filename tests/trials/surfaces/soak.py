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
from itertools import count
from pathlib import Path

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import wait_for
from tests.trials.tools.databases import DATABASES, measure_wal, query_rows
from tests.trials.tools.traffic import Readers, Senders, SlowClients, create_access, lock_databases
from tests.trials.trial import Trial, await_sync, until

MAX_SLOPE, HOURS, MAX_GROWTH = 1.0, 4.0, 25.0
"""MB of memory that may be added in an hour, if measured for more than HOURS hours; MB that may be added in
total in less time, in which the caches of the databases grow."""
FAULTS = (
    "status=503",
    "html",
    "malformed=json",
    "malformed=headers",
    "truncate",
    "hang=3",
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

    `memory`: anonymous memory in MB; `handles` by kind; `threads` without the server's pool; `streams`: open
    live streams; `log`: bytes of the longest write-ahead log.
    """

    at: float
    memory: float
    handles: Counter[str]
    threads: int
    streams: int
    log: int

    def describe(self, begun: float) -> str:
        return (
            f"{(self.at - begun) / 60:.1f} min: {self.memory:.1f} MB, {self.handles.total()} handles, "
            f"{self.threads} threads, {self.streams} streams, a log of {self.log / 2**20:.1f} MiB"
        )


class Soak(Trial):
    """Memory, file handles and threads do not grow in hours of failures.

    Disturbed: while webhooks arrive, calls happen at the platform and pages are read, every few minutes the
    platform fails, each time in another way, the databases are locked by another process, senders disconnect
    in the middle of a body and live pages without closing their streams.
    Checked: the last third of the samples taken between failures against the first; every acknowledged event
    is stored once and applied; every CDR of the platform is stored.
    Detects: handles, threads and memory that are not released.
    """

    name = "soak"
    bugs, symptoms = ("leak_handles", "leak_webhooks"), ("handles", "threads")
    short = ("--short", "--short --seed-bug")

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", "--hours", dest="hours", type=float, default=8.0)
        parser.add_argument("--rate", type=float, default=20.0, help="events a second")
        parser.add_argument("--fault-minutes", type=float, default=10.0, help="from one failure to the next")
        parser.add_argument(
            "--short", action="store_true", help="failures only; check neither memory nor CDRs"
        )

    def boot(self) -> None:
        if not self.options.short:
            self.symptoms = (*type(self).symptoms, "memory")
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
        self.senders = Senders(port, path, count=SENDERS, rest=SENDERS / self.options.rate, first=1)
        self.readers = Readers(port, self.access.list_pages(), rest=1.0)
        # More readers than later: what the product creates for each is reused afterwards.
        crowd = Readers(port, self.access.list_pages() * 12, rest=0.0)
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
        pause, samples = threading.Event(), list[Sample]()
        while time.monotonic() < begun + self.options.hours * 3600 or len(samples) < 4:
            due = begun + len(samples) * cycle
            with self._fail(FAULTS[len(samples) % len(FAULTS)]):
                pause.wait(cycle / 3)
            pause.wait(max(0.0, due + cycle - time.monotonic()))
            samples.append(self._measure())
            print(f"soak: {samples[-1].describe(begun)}", flush=True)
        # What is created once stays; that ends within an hour.
        steady = [one for one in samples if one.at - begun >= min(3600, self.options.hours * 1200)]
        slope = _compute_slope(steady)
        hours = (steady[-1].at - steady[0].at) / 3600
        limit = MAX_SLOPE if hours > HOURS else MAX_GROWTH / hours
        self.verify(slope < limit, f"memory grows by less than {limit:.1f} MB an hour, not by {slope:.1f} MB")
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
            f"first {samples[0].describe(begun)}, last {samples[-1].describe(begun)}"
        )

    def _fail_at_once(self) -> None:
        """Let the platform fail without a pause; compare resources before and after."""
        self._fail_shortly()
        until(lambda: self._count_streams() == 0, 60)
        before = after = self._measure()
        for _ in range(CYCLES):
            self._fail_shortly()

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
        self.verify(set(statuses) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(statuses)}")
        self.verify(statuses[200] > statuses.total() / 2, f"most webhooks get 200, not {dict(statuses)}")
        read = self.readers.statuses
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
        pids = [self.product.pid, *([self.product.worker] if self.product.worker else [])]
        return Sample(
            time.monotonic(),
            sum(map(_measure_memory, pids)) / 1024,
            sum(map(_count_handles, pids), Counter()),
            sum(map(_count_threads, pids)),
            self._count_streams(),
            max(measure_wal(self.data_dir, name) for name in DATABASES),
        )

    def _count_streams(self) -> int:
        text = self.product.client.send("GET", "/metrics")[1].decode()
        return int(float(re.findall(r"^switchroom_live_streams (\S+)", text, re.M)[0]))


def _compute_slope(samples: Sequence[Sample]) -> float:
    """Megabytes an hour."""
    line = statistics.linear_regression([one.at for one in samples], [one.memory for one in samples])
    return 3600 * line.slope


def _measure_memory(pid: int) -> int:
    """Anonymous memory in KB. The system can free pages of mapped files."""
    (line,) = re.findall(r"^RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(line)


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
