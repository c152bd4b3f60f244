"""Trial of a burst of webhooks during an initial sync."""

from __future__ import annotations

import argparse
import json
import time

from tests.benchmarks.tools import load
from tests.benchmarks.tools.data_dirs import run_platform
from tests.support.harness import wait_for
from tests.trials.tools.databases import count_stored, find_duplicates, is_complete, query_number
from tests.trials.tools.traffic import Readers, create_access
from tests.trials.trial import Trial, allow_many_connections

RESPONSE_SECONDS = 1.0
CDRS = 10_000_000
"""CDRs at the platform: more than the sync reads during the trial."""
STORED = 5_000
"""Records after which the calls of an initial sync are no longer assembled, and published, at once."""
FIRST = 500_000_000
"""Number of the first event. Its call is not among the platform's."""


class Burst(Trial):
    """A burst of webhooks during an initial sync is stored.

    Disturbed: 10,000 webhooks over 500 connections, during a sync of 10 million CDRs, while five pages are
    requested repeatedly.
    Checked: each webhook gets 200 and is stored once, 99 of 100 within a second; the pages get 200; the sync
    continues.
    Detects: webhooks that are refused.
    """

    name = "burst"
    size_option, size = "--posts", 10_000
    bugs, symptoms = ("refuse_some_webhooks",), ("every webhook gets 200",)
    short = (
        "--short --posts 1500 --connections 150",
        "--short --posts 1500 --connections 150 --seed-bug",
    )
    promises = ("P19",)
    long = ("",) * 3

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--connections", type=int, default=500)
        parser.add_argument("--short", action="store_true", help="print the response time, do not check it")

    def boot(self) -> None:
        allow_many_connections()
        url = self.cleanup.enter_context(run_platform(CDRS, "strangers"))
        self.access = create_access(self.data_dir)
        self.product = self.start_product(self.data_dir, base_url=url)
        wait_for(lambda: self._count_read() >= STORED, "the sync", 300)

    def load(self) -> None:
        self.readers = Readers(self.product.port, self.access.list_pages())
        wait_for(lambda: len(self.readers.responses) >= 5, "the pages")

    def disturb(self) -> None:
        posts, connections = self.options.size, self.options.connections
        before = self._count_read()
        path = self.product.webhook_path
        burst = load.run(self.product.port, path, requests=posts, connections=connections, first=FIRST)
        self.read, self.refused = self._count_read(), burst.failures
        self.verify(burst.failures == 0, f"every webhook gets 200, not {burst.failures} of them")
        if not self.options.short and not self.is_seeded:
            fast = burst.p99 < RESPONSE_SECONDS
            self.verify(fast, f"99 of 100 webhooks get a response within 1 s, not {burst.p99:.2f} s")
        self.readers.stop()
        began = time.monotonic()
        self.verify_applied(self.data_dir, 600)
        self.figures.append(
            f"{posts:,} webhooks over {connections} connections, {burst.per_second:,.0f}/s, "
            f"p50 {burst.p50 * 1000:.0f} ms, p99 {burst.p99 * 1000:.0f} ms; all applied "
            f"{time.monotonic() - began:.1f} s after; {self.read - before:,} records read during the burst"
        )

    def check(self) -> None:
        events, posts = count_stored(self.data_dir), self.options.size
        twice = find_duplicates(self.data_dir)
        self.verify(not twice, f"no event is stored twice, not {len(twice)}, such as {twice[:1]}")
        stored = sum(json.loads(load.body(number))["id"] in events for number in range(FIRST, FIRST + posts))
        expected = posts - self.refused
        self.verify(stored == expected, f"{expected} events are stored, not {stored}")
        self.verify_soon(lambda: self._count_read() > self.read, "the sync continues", 120)
        self.verify(not is_complete(self.data_dir, "cdrs"), "the sync ran during the entire burst")
        read = self.readers.statuses
        self.verify(set(read) == {200}, f"every page gets 200, not {dict(read)}")

    def _count_read(self) -> int:
        """Records that the sync has stored."""
        sql = "SELECT max(walk_rows) FROM _walks WHERE collection = 'cdrs'"
        return query_number(self.data_dir / "mirror.db", sql)
