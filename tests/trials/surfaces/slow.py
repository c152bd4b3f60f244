"""Trial of slow clients."""

from __future__ import annotations

import argparse
import math
import ssl
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.support.certificates import write_certificate
from tests.trials.tools.traffic import Readers, Senders, SlowClients, create_access
from tests.trials.trial import NO_TRAFFIC, Trial, allow_many_connections, await_sync, until

RESPONSE_SECONDS = 1.0
FAST_RESPONSES = 30
"""Fast responses in succession after which all requests of slow clients have been computed."""
COMPUTING_SECONDS = 40.0
"""Time within which all requests of slow clients must have been computed. 5.7 s were measured."""
OPEN_PATHS = ("/webhooks/wrong", "/login", "/v1.2/login", "/setup/wrong", "/v1.2/sms", "/logout")
"""Paths that accept a body without a login."""
IDLE_SECONDS = 30.0
PROBES = ("/healthz", "/readyz", "/login", "/missed")


class Slow(Trial):
    """Slow clients delay no other client, over HTTP and HTTPS.

    Disturbed: 300 connections send half a header; 300 announce a body and send its beginning, to each path
    that accepts one without a login; 300 request large responses and read nothing, with and without
    credentials; for a minute each. 300 connections send nothing.
    Over HTTP/1.1 with and without TLS; HTTP/2 is not offered (`tests/server/test_supervisor.py`).
    Checked: probes, webhooks and pages get 200 within a second, once the requests of the slow clients are
    computed, which takes 40 s at most; the product is ready afterwards. Idle connections are closed within
    30 s. Half-sent logins of many addresses: `tests/server/test_slow_connections.py`.
    Detects: a receiver that reads the bodies of webhooks it refuses.
    """

    name = "slow"
    size_option, size = "--connections", 300
    bugs, symptoms = ("read_bodies_of_refused",), ("half bodies",)
    short = (
        "--short --connections 200 --seconds 2",
        "--short --connections 400 --seconds 1 --seed-bug",
    )
    mostly_waits = True
    promises = ("P20", "S24")

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=60.0)
        parser.add_argument("--short", action="store_true", help="allow several times the promised second")

    def boot(self) -> None:
        allow_many_connections()
        self.simulator = self.start_simulator(
            *NO_TRAFFIC, "--cdrs", "1500" if self.options.short else "20000"
        )
        self.access = create_access(self.data_dir)

    def disturb(self) -> None:
        for context in (None,) if self.is_seeded else (None, write_certificate(self.folder, "127.0.0.1")):
            self._disturb_protocol(context)

    def _disturb_protocol(self, context: ssl.SSLContext | None) -> None:
        """Run all kinds of slow clients over HTTP, or over HTTPS with `context`."""
        self.context, self.protocol = context, "http" if context is None else "https"
        files = {} if context is None else {"tls_cert": "cert.pem", "tls_key": "key.pem"}
        settings = {f"server__{name}": str(self.folder / file) for name, file in files.items()}
        self.product = self.start_product(self.data_dir, self.simulator, context=context, **settings)
        await_sync(self.product, "cdrs")
        self.dashboard = dict(self.access.dashboard)
        if context is not None:
            self.dashboard["Cookie"] = f"__Host-{self.dashboard['Cookie']}"
        idle = self._open_slow_clients([b""], self.options.size, drips=False)
        opened_at = time.monotonic()
        head = (
            "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: "
            "{url}\r\nContent-Length: "
            "5000\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nemail=alice"
        )
        bodies = [
            head.format(path, port=self.product.port, url=self.product.url).encode() for path in OPEN_PATHS
        ]
        self._try("half bodies", bodies[: 1 if self.is_seeded else None])
        if not self.is_seeded:
            self._try("half headers", [b"GET /calls HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
            self._try("slow readers", self._list_large_requests(), drips=False)
            self.verify_soon(
                lambda: not idle.count_open(),
                f"{self.protocol}: idle connections are closed within {IDLE_SECONDS:.0f} s",
                max(0.0, opened_at + IDLE_SECONDS * (2 if self.options.short else 1.1) - time.monotonic()),
            )
        idle.close()
        self.stop_product(self.product)

    def _open_slow_clients(self, openings: list[bytes], count: int, **options: Any) -> SlowClients:
        return SlowClients(self.product.port, openings, count, context=self.context, **options)

    def _list_large_requests(self) -> list[bytes]:
        requests: list[tuple[str, Mapping[str, str]]] = [
            ("/exports/cdrs.csv", self.dashboard),
            ("/exports/cdrs.jsonl", self.dashboard),
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
        name, kind = kind[:6], f"{self.protocol} {kind}"
        limit = RESPONSE_SECONDS * (10 if self.options.short or self.is_seeded else 1)
        clients = self._open_slow_clients(openings, self.options.size, drips=drips)
        try:
            # At first the product computes the responses to all slow clients at once, until their sockets are
            # full; the trial states how long this takes and measures what follows.
            began = time.monotonic()
            is_fast = until(self._are_responses_fast, 1 if self.is_seeded else COMPUTING_SECONDS)
            fast_after = time.monotonic() - began
            pages = [(path, self.dashboard if path == "/missed" else {}) for path in PROBES]
            probes = Readers(self.product.port, pages, rest=0.1, context=self.context)
            path = self.product.webhook_path
            senders = Senders(
                self.product.port, path, count=2, rest=0.1, name=self.protocol + name, context=self.context
            )
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
