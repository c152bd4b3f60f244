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
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import find_lost, query_number
from tests.trials.tools.processes import measure_wait
from tests.trials.tools.traffic import Senders, SlowClients, create_access
from tests.trials.trial import Trial, await_new_worker

SENDERS = 32
SLOW_CLIENTS = 150
STREAMS = 4
READY_SECONDS = 5.0
MANY = 50
"""Number of kills from which the limit READY_SECONDS applies. With fewer, other trials may run at the same
time, and the limit is ten times as long."""


class Crash(Trial):
    """No acknowledged event is lost when worker, supervisor or both are killed.

    Disturbed: SIGKILL at random moments, while 32 connections post unique events. At the end SIGTERM, while
    slow clients and live streams are connected.
    Checked: each acknowledged event is stored once and applied; the databases are intact; restarts take 5 s
    at most, without the time in which a busy machine gives the product no processor. While a killed worker
    is replaced, no connection is refused, no webhook gets 503, and no more connections break than it
    had accepted. The worker ends after SIGTERM without being killed.
    Detects: webhooks that are acknowledged before their commit.
    """

    name = "crash"
    size_option, size = "--kills", 500
    bugs, symptoms = ("acknowledge_early",), ("lost",)
    short = ("--kills 8", "--kills 4 --seed-bug")
    long = LongForm(
        promises=("P1",),
        rounds=("--kills 50 --acknowledgements 200",) * 10,
        minutes=80,
        remains="kills of the operating system; see P2 for what is on the disk",
        expectation="by hand: the senders' own list of acknowledged events",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--acknowledgements", type=int, default=50, help="fewest before each kill")

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        self.restarts: list[float] = []
        self.own_seconds: list[float] = []
        """Restarts without the time in which the product waited for a processor."""
        self.kills: Counter[str] = Counter()
        self.failed_requests: Counter[str] = Counter()
        """Failed requests while a killed worker was replaced."""
        self.access = create_access(self.data_dir)
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

    def _stop_with_open_connections(self) -> None:
        """Stop the product with senders, slow clients and live streams."""
        session = f"Host: 127.0.0.1\r\nCookie: {self.access.dashboard['Cookie']}\r\n\r\n"
        body = "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n"
        kinds = {"body": body, "header": body[:40], "page": f"GET /live HTTP/1.1\r\n{session}"}
        slow = SlowClients(self.port, [text.encode() for text in kinds.values()], SLOW_CLIENTS, drips=True)
        stream = f"GET /live/stream HTTP/1.1\r\n{session}".encode()
        streams = SlowClients(self.port, [stream], STREAMS, drips=False)
        senders = Senders(self.port, self.product.webhook_path, name="last", rest=0.0)
        try:
            wait_for(lambda: senders.statuses[200] >= SENDERS, "responses beside slow clients")
            open_streams = streams.count_open()
            self.verify(open_streams == STREAMS, f"{STREAMS} live streams are open, not {open_streams}")
            began = time.monotonic()
            self.stop_product(self.product)
            self.figures.append(
                f"a stop with {SLOW_CLIENTS} slow clients took {time.monotonic() - began:.1f} s"
            )
        finally:
            for clients in (slow, streams):
                clients.close()
            senders.stop(15)
        self.verify_stored(self.data_dir, senders.acknowledged)

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
        seconds = time.monotonic() - began
        self.restarts.append(seconds)
        new = [self.product.worker] if what == "worker" else [self.product.pid, self.product.worker]
        self.own_seconds.append(seconds - sum(measure_wait(pid) for pid in new if pid is not None))

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
        self._stop_with_open_connections()
        acknowledged = self.senders.acknowledged
        self.verify_stored(self.data_dir, acknowledged)
        failed = "SELECT count(*) FROM inbox WHERE status NOT IN ('done', 'new')"
        failures = query_number(self.data_dir / "inbox.db", failed)
        self.verify(not failures, f"every event can be applied, not {failures} of them")
        limit = READY_SECONDS * (1 if len(self.restarts) >= MANY else 10)
        slow = [seconds for seconds in self.own_seconds if seconds > limit]
        self.verify(not slow, f"a restart takes at most {limit:.0f} s, not {slow}")
        self.verify(
            not +self.failed_requests,
            f"no request fails while a worker is replaced, not {dict(self.failed_requests)}",
        )
        slowest = round(max(self.restarts, default=0), 1)
        lost = len(find_lost(self.data_dir, acknowledged))
        self.sums = {"kills": len(self.restarts), "acknowledgements": len(acknowledged), "lost": lost}
        self.sums |= self.failed_requests
        self.highest = {
            "slowest restart in seconds": round(max(self.own_seconds, default=0), 1),
            "the same with the time in which it waited for a processor": slowest,
        }
        self.figures.append(
            f"{sum(self.kills.values())} kills {dict(self.kills)}, statuses {dict(self.senders.statuses)}, "
            f"slowest restart {slowest} s"
        )
