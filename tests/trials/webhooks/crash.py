"""Trial of killed processes."""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

from tests.support.harness import Product, alive, keep_port, wait_for
from tests.trials.tools.databases import query_number
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial, await_new_worker

SENDERS = 32
READY_SECONDS = 5.0
MANY = 50
"""Number of kills from which the limit READY_SECONDS applies. With fewer, other trials may run at the same
time, and the limit is ten times as long."""


class Crash(Trial):
    """No acknowledged event is lost when worker, supervisor or both are killed.

    Disturbed: SIGKILL at random moments, while 32 connections post unique events.
    Checked: each acknowledged event is stored once and applied; the databases are intact; restarts take 5 s
    at most. While a killed worker is replaced, no connection is refused, no webhook gets 503, and no more
    connections break than it had accepted.
    Detects: webhooks that are acknowledged before their commit.
    """

    name = "crash"
    size_option, size = "--kills", 500
    bugs, symptoms = ("acknowledge_early",), ("lost",)
    short = ("--kills 8", "--kills 4 --seed-bug")
    promises = ("P1", "P31")
    long = ("--kills 50 --acknowledgements 200",) * 10

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--acknowledgements", type=int, default=50, help="fewest before each kill")

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        self.restarts: list[float] = []
        self.kills: Counter[str] = Counter()
        self.failed_requests: Counter[str] = Counter()
        """Failed requests while a killed worker was replaced."""
        kept = self.cleanup.enter_context(keep_port())
        self.port = kept.getsockname()[1]
        self.product = self.start_product(self.data_dir, port=self.port)

    def load(self) -> None:
        self.senders = Senders(self.port, self.product.webhook_path, count=SENDERS, rest=0.0)

    def disturb(self) -> None:
        pause = threading.Event()
        for _ in range(self.options.size):
            began = time.monotonic()
            wait_for(
                lambda began=began: self._count_since(began) > self.options.acknowledgements, "responses", 300
            )
            pause.wait(self.random.uniform(0, 0.2))
            self._kill(self.random.choice(["worker", "worker", "supervisor", "both"]))
        self.senders.stop(15)

    def _count_since(self, began: float) -> int:
        """Acknowledgements since `began` (time.monotonic)."""
        return self.senders.since(began)[200]

    def _kill(self, what: str) -> None:
        """Kill processes, and wait until the product is ready again."""
        worker, supervisor = self.product.worker, self.product.pid
        self.kills[what] += 1
        killed_at = time.monotonic()
        for victim in {"worker": [worker], "supervisor": [supervisor], "both": [supervisor, worker]}[what]:
            if victim is not None:
                # A worker may end as soon as its supervisor has.
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        if what == "worker":
            await_new_worker(self.product, worker)
            self._count_failures(killed_at)
        else:
            self._replace(self.product, worker)
        self.restarts.append(time.monotonic() - began)

    def _count_failures(self, killed_at: float) -> None:
        responses = self.senders.list_since(killed_at)
        broken = sum(not one.status and not one.is_refused for one in responses)
        self.failed_requests["refused connections"] += sum(one.is_refused for one in responses)
        self.failed_requests["responses 503"] += sum(one.status == 503 for one in responses)
        # Each sender has one connection, which the killed worker had accepted.
        self.failed_requests["other broken connections"] += max(0, broken - SENDERS)

    def _replace(self, killed: Product, worker: int | None) -> None:
        self.kill_product(killed)
        if worker is not None:
            wait_for(lambda: not alive(worker), "the end of the worker without a supervisor", 60)
        self.product = self.start_product(self.data_dir, port=self.port)

    def check(self) -> None:
        self.verify_applied(self.data_dir, 60)
        self.stop_product(self.product)
        acknowledged = self.senders.acknowledged
        self.verify_stored(self.data_dir, acknowledged)
        failed = "SELECT count(*) FROM inbox WHERE status NOT IN ('done', 'new')"
        failures = query_number(self.data_dir / "inbox.db", failed)
        self.verify(not failures, f"every event can be applied, not {failures} of them")
        limit = READY_SECONDS * (1 if len(self.restarts) >= MANY else 10)
        slow = [seconds for seconds in self.restarts if seconds > limit]
        self.verify(not slow, f"a restart takes at most {limit:.0f} s, not {slow}")
        self.verify(
            not +self.failed_requests,
            f"no request fails while a worker is replaced, not {dict(self.failed_requests)}",
        )
        self.figures.append(
            f"{sum(self.kills.values())} kills {dict(self.kills)}, statuses {dict(self.senders.statuses)}, "
            f"{len(acknowledged)} acknowledgements, slowest restart {max(self.restarts):.1f} s"
        )
