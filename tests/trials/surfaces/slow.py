"""Trial of slow clients."""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections import Counter
from collections.abc import Mapping

from tests.trials.long_form import LongForm
from tests.trials.tools.traffic import Readers, Senders, SlowClients, create_access
from tests.trials.trial import NO_TRAFFIC, Trial, allow_many_connections, await_sync, until

RESPONSE_SECONDS = 1.0
FAST_RESPONSES = 30
"""Fast responses in succession after which all requests of slow clients have been computed."""
COMPUTING_SECONDS = 40.0
"""Time within which all requests of slow clients must have been computed. 5.7 s were measured."""
OPEN_PATHS = ("/webhooks/wrong", "/login", "/v1.2/login", "/setup/wrong", "/v1.2/sms", "/logout")
"""Paths that accept a body without a login."""
PROBES = ("/healthz", "/readyz", "/login", "/missed")


class Slow(Trial):
    """Slow clients delay no other client.

    Disturbed: 300 connections send half a header; 300 announce a body and send its beginning, to each path
    that accepts one without a login; 300 request large responses and read nothing, with and without
    credentials; for a minute each.
    Checked: probes, webhooks and pages get 200 within a second, once the requests of the slow clients are
    computed, which takes 40 s at most; the product is ready afterwards.
    Detects: a receiver that reads the bodies of webhooks it refuses.
    """

    name = "slow"
    size_option, size = "--connections", 300
    bugs, symptoms = ("read_bodies_of_refused",), ("half bodies",)
    short = (
        "--short --connections 200 --seconds 2",
        "--short --connections 400 --seconds 1 --seed-bug",
    )
    long = LongForm(
        promises=("P20",),
        rounds=("",),
        minutes=5,
        remains="",
        expectation="by hand: statuses and times",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--short", action="store_true", help="allow several times the promised second")

    def boot(self) -> None:
        allow_many_connections()
        simulator = self.start_simulator(*NO_TRAFFIC, "--cdrs", "1500" if self.options.short else "20000")
        self.access = create_access(self.data_dir)
        self.product = self.start_product(self.data_dir, simulator)
        await_sync(self.product, "cdrs")

    def disturb(self) -> None:
        head = (
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: "
            "http://127.0.0.1:{port}\r\nContent-Length: "
            "5000\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nemail=alice"
        )
        paths = OPEN_PATHS[: 1 if self.is_seeded else None]
        self._try("half bodies", [head.format(path, port=self.product.port).encode() for path in paths])
        if not self.is_seeded:
            self._try("half headers", [b"GET /calls HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
            self._try("slow readers", self._list_large_requests(), drips=False)

    def _list_large_requests(self) -> list[bytes]:
        requests: list[tuple[str, Mapping[str, str]]] = [
            ("/exports/cdrs.csv", self.access.dashboard),
            ("/exports/cdrs.jsonl", self.access.dashboard),
            ("/v1.2/cdrs?limit=5000", self.access.facade),
            ("/login", {}),
            ("/static/app.css", {}),
        ]
        return [
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
            + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items())
            + b"\r\n"
            for path, headers in requests
        ]

    def _try(self, kind: str, openings: list[bytes], *, drips: bool = True) -> None:
        """Send probes and webhooks while slow clients of one kind are connected."""
        limit = RESPONSE_SECONDS * (10 if self.options.short or self.is_seeded else 1)
        clients = SlowClients(self.product.port, openings, self.options.size, drips=drips)
        try:
            # At first the product computes the responses to all slow clients at once, until their sockets are
            # full; the trial states how long this takes and measures what follows.
            began = time.monotonic()
            is_fast = until(self._are_responses_fast, 1 if self.is_seeded else COMPUTING_SECONDS)
            fast_after = time.monotonic() - began
            pages = [(path, self.access.dashboard if path == "/missed" else {}) for path in PROBES]
            probes = Readers(self.product.port, pages, rest=0.1)
            path = self.product.webhook_path
            senders = Senders(self.product.port, path, count=2, rest=0.1, name=kind[:6])
            patience = 15 if self.is_seeded else 240
            until(lambda: len({one.what for one in list(probes.responses)}) == len(PROBES), patience)
            threading.Event().wait(self.options.seconds)
            still_open = clients.count_open()
            clients_of = {"probes": probes, "webhooks": senders}
            for sent in clients_of.values():
                sent.stop(2.0 if self.is_seeded else 2 * limit)
            # Requests that get a response only once the slow clients are closed are in no figure.
            pending = [what for what, sent in clients_of.items() if not sent.is_finished]
        finally:
            clients.close()
        self.verify(not pending, f"{kind}: no request waits for the end of slow clients, except {pending}")
        # The planted bug must be detected by the responses.
        if not self.is_seeded:
            self.verify(is_fast, f"{kind}: all requests are computed within {COMPUTING_SECONDS:.0f} s")
        answered = Counter(one.what for one in probes.responses)
        self.verify(
            len(answered) == len(PROBES), f"{kind}: every probe gets a response, not {dict(answered)}"
        )
        for what, sent in clients_of.items():
            statuses = sent.statuses
            self.verify(set(statuses) == {200}, f"{kind}: {what} get 200, not {dict(statuses)}")
        slowest = max(probes.slowest, senders.slowest)
        self.verify(slowest <= limit, f"{kind}: a response within {limit:.0f} s, not {slowest:.1f} s")
        self.verify_soon(
            lambda: self._measure_ready() < math.inf, f"{kind}: the product is ready without slow clients"
        )
        self.figures.append(
            f"{kind}: {sum(answered.values())} probes, "
            f"{len(senders.responses)} webhooks, slowest {slowest:.2f} s,"
            f" {still_open} clients still connected, all requests computed after {fast_after:.1f} s"
        )

    def _are_responses_fast(self) -> bool:
        """Whether FAST_RESPONSES requests in succession get fast responses."""
        return all(self._measure_ready() < RESPONSE_SECONDS for _ in range(FAST_RESPONSES))

    def _measure_ready(self) -> float:
        """Seconds of a request to /readyz."""
        began = time.monotonic()
        try:
            self.product.client.send("GET", "/readyz")
        except OSError:
            return math.inf
        return time.monotonic() - began
