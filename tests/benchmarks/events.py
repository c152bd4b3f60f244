"""Benchmark of events for programs: readers beside open pages, a page of calls, and outgoing webhooks.

The readers share a thread with the measurement. Each sends its next request when it has received a response.
"""

from __future__ import annotations

import selectors
import socket
import tempfile
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from tests.benchmarks import streams
from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Figure,
    Goal,
    Options,
    make_figure,
)
from tests.benchmarks.tools.data_dirs import add_key, get_data_dir, run_product
from tests.benchmarks.tools.processes import Requests
from tests.support.harness import Product, keep_port, wait_for
from tests.support.scripted_server import Request, Server

READERS, PAGES = 50, 100
READERS_OF_KEY = 4
"""Half of what a key can wait for."""
ROUNDS, SMALL_ROUNDS = 5, 3
EVENTS, SMALL_EVENTS = 160, 10
"""Webhooks of a round. A hundredth of them, the slowest, is p99: with 40 it is one event, and noise."""
INTERVAL_SECONDS = 0.25
"""Seconds between two webhooks."""
WITHOUT = "without readers"
SUBSCRIBERS = 20
HANGING = "/hanging"
CALLS_PATH = "/api/calls?limit=500"
CALLS_CPU = 25.0
"""Milliseconds of CPU time for a page of 500 calls."""
CALLS_REQUESTS = 15


class Reader:
    """A program that waits for events, over one connection."""

    def __init__(self, port: int, key: str, selector: selectors.BaseSelector) -> None:
        self._headers = f"Host: localhost\r\nX-Auth-Token: {key}\r\n\r\n"
        self._selector = selector
        self._buffer = b""
        self.events = 0
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._send("")
        while not self._receive():
            pass
        selector.register(self._socket, selectors.EVENT_READ, self._receive)

    def close(self) -> None:
        self._selector.unregister(self._socket)
        self._socket.close()

    def _send(self, query: str) -> None:
        self._socket.sendall(f"GET /api/events{query} HTTP/1.1\r\n{self._headers}".encode())

    def _receive(self) -> bool:
        """Receive bytes. After a complete response, send the next request and return True."""
        received = self._socket.recv(65536)
        assert received, "a reader was disconnected"
        self._buffer += received
        head, _, body = self._buffer.partition(b"\r\n\r\n")
        lengths = [
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        if not lengths or len(body) < lengths[0]:
            return False
        assert b" 200 " in head, head
        self._buffer = b""
        page = orjson.loads(body)
        self.events += len(page["data"])
        self._send(f"?wait=30&after={page['next']}")
        return True


class Receivers:
    """Receivers of outgoing webhooks, by the path of their URL. One hangs, and one refuses connections."""

    def __init__(self) -> None:
        self.server = Server()
        self.server.routes["*"] = self._respond
        self.closed = keep_port()
        self.released = threading.Event()
        self.arrivals: list[float] = []
        """Times at which requests of the others arrived (perf_counter)."""

    def list_urls(self) -> list[str]:
        urls = [f"{self.server.url}/{number}" for number in range(SUBSCRIBERS - 2)]
        return [f"http://127.0.0.1:{self.closed.getsockname()[1]}/", f"{self.server.url}{HANGING}", *urls]

    def _respond(self, request: Request, reply: Any) -> None:
        if request.path == HANGING:
            self.released.wait(60)
        else:
            self.arrivals.append(time.perf_counter())
        reply.content(b"", "text/plain", 204)

    def close(self) -> None:
        self.released.set()
        self.closed.close()
        self.server.close()


def measure(options: Options) -> list[Figure]:
    figures = [*measure_readers(options), *measure_deliveries(options)]
    return figures if options.is_small else [*figures, *measure_calls(options)]


def measure_readers(options: Options) -> list[Figure]:
    """Measure webhooks in open pages, with and without readers, in alternating rounds."""
    events = SMALL_EVENTS if options.is_small else EVENTS
    numbers = count()
    delays: dict[str, list[list[float]]] = {PRODUCT: [], WITHOUT: []}
    with streams.run_pages(PAGES) as (product, selector):
        keys = [add_key(product) for _ in range(0, READERS, READERS_OF_KEY)]

        def receive(seconds: float) -> None:
            for key, _ in selector.select(seconds):
                key.data() if key.data is not None else key.fileobj.recv(65536)  # type: ignore[union-attr]

        def post() -> list[float]:
            begun = time.perf_counter()
            found = streams.post_event(selector, product, load.body(5 * next(numbers) + 1), PAGES)
            while (seconds := begun + INTERVAL_SECONDS - time.perf_counter()) > 0:
                receive(seconds)
            return found

        def run(name: str, readers: int) -> None:
            waiting = [
                Reader(product.port or 0, keys[number // READERS_OF_KEY], selector)
                for number in range(readers)
            ]
            post()
            found = sorted(delay for _ in range(events) for delay in post())

            def have_all_events() -> bool:
                receive(0.1)
                return all(reader.events for reader in waiting)

            wait_for(have_all_events, "an event for each reader", streams.SILENCE)
            for reader in waiting:
                reader.close()
            delays[name].append(found)

        for _ in range(SMALL_ROUNDS if options.is_small else ROUNDS):
            run(PRODUCT, READERS)
            # The waits of these readers end in this round. Two rounds with readers in a row would have 100.
            run(WITHOUT, 0)
    name = f"webhook to changed row, {PAGES} open pages and {READERS} readers of events"
    return [
        make_figure(
            f"{name}: {percentile}",
            "ms",
            {peer: [1000 * one[int(len(one) * share)] for one in rounds] for peer, rounds in delays.items()},
            goals=(Goal(1.1, WITHOUT),),
        )
        for percentile, share in {"p50": 0.5, "p99": 0.99}.items()
    ]


def measure_deliveries(options: Options) -> list[Figure]:
    """Measure the time from the platform's webhook to the request of each receiver that responds."""
    rounds, events = (SMALL_ROUNDS, SMALL_EVENTS) if options.is_small else (ROUNDS, EVENTS)
    receivers, delays, numbers = Receivers(), list[list[float]](), count()
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        product = Product(Path(folder) / "data", outgoing__allow_hosts="127.0.0.1")
        try:
            for number, url in enumerate(receivers.list_urls()):
                added = product.command("events", "add", f"{number}", url, "--kinds", "call.ringing")
                assert added.returncode == 0, added.stderr

            def post() -> list[float]:
                receivers.arrivals, began = [], time.perf_counter()
                body = load.body(5 * next(numbers) + 1)
                assert product.client.send("POST", product.webhook_path, body)[0] == 200
                wait_for(lambda: len(receivers.arrivals) == SUBSCRIBERS - 2, "the requests", streams.SILENCE)
                return [at - began for at in receivers.arrivals]

            for _ in range(rounds):
                delays.append(sorted(delay for _ in range(events) for delay in post()))
        finally:
            receivers.close()
            product.stop()
    name = f"webhook to outgoing webhook, {SUBSCRIBERS} receivers of which one hangs and one refuses"
    return [
        Figure(
            f"{name}: {percentile}",
            "ms",
            [1000 * one[int(len(one) * share)] for one in delays],
            goals=(Goal(limit),),
        )
        for percentile, (share, limit) in {"p50": (0.5, 300), "p99": (0.99, 1000)}.items()
    ]


def measure_calls(options: Options) -> list[Figure]:
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    product = run_product(get_data_dir(rows))
    try:
        client = Requests(product.port or 0, {"X-Auth-Token": add_key(product)}, product.worker)
        client.get(CALLS_PATH)
        for _ in range(CALLS_REQUESTS):
            client.measure(CALLS_PATH)
        return [
            Figure("page of 500 calls, server", "CPU ms", client.cpu, goals=(Goal(CALLS_CPU),), size=rows)
        ]
    finally:
        product.stop()


BENCHMARK = Benchmark(
    title="Events for programs, and a page of 500 calls",
    measure=measure,
    rows=(1_000_000,),
)
