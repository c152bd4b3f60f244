"""Benchmark of live streams: time from a webhook to the changed row.

All streams are read by one thread.
"""

from __future__ import annotations

import http.cookiejar
import re
import selectors
import socket
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from integration.live.stream import MAX_STREAMS_PER_BROWSER
from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import Benchmark, Figure, Goal, Options
from tests.support.harness import Product

PASSWORD = "a long enough password"
DASHBOARDS = 100
ROUNDS, EVENTS = 3, 20
SILENCE = 20.0
"""Seconds without received bytes after which missing changes count as lost."""


def log_in(product: Product, email: str) -> str:
    """Create an administrator and log in. Returns the session cookie."""
    added = product.command("user", "add", email, "--role", "admin", "--password-stdin", stdin=PASSWORD)
    assert added.returncode == 0, added.stderr
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    page = browser.open(f"{product.url}/login").read().decode()
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    form = {"csrf_token": token[1], "email": email, "password": PASSWORD}
    browser.open(f"{product.url}/login", urllib.parse.urlencode(form).encode()).read()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


@contextmanager
def run_pages(dashboards: int, **settings: str) -> Iterator[tuple[Product, selectors.BaseSelector]]:
    """Run the product with open pages. Yields it, and a selector with the socket of each stream."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        product = Product(Path(folder) / "data", **settings)
        selector = selectors.DefaultSelector()
        try:
            cookie = ""
            for number in range(dashboards):
                if number % MAX_STREAMS_PER_BROWSER == 0:
                    cookie = log_in(product, f"bench{number}@example.com")
                stream = socket.create_connection(("127.0.0.1", product.port))
                stream.sendall(
                    f"GET /live/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
                )
                assert b" 200 " in stream.recv(4096)
                stream.setblocking(False)
                selector.register(stream, selectors.EVENT_READ)
            yield product, selector
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            product.stop()


def post_event(
    selector: selectors.BaseSelector, product: Product, body: bytes, dashboards: int
) -> list[float]:
    """Post an event and wait until every stream has received its call. Returns their delays in seconds.

    The data of another socket in `selector` is a function that is called when it can be read.
    """
    match = re.search(rb'"call_id":(\d+)', body)
    assert match is not None
    call, delays = match[1], dict[int, float]()
    began = time.perf_counter()
    status, _, _ = product.client.send(
        "POST", product.webhook_path, body, {"Content-Type": "application/json"}
    )
    assert status == 200
    received: dict[int, bytes] = {}
    while len(delays) < dashboards:
        ready = selector.select(SILENCE)
        if not ready:
            break
        for key, _ in ready:
            if key.data is not None:
                key.data()
                continue
            received[key.fd] = received.get(key.fd, b"") + key.fileobj.recv(65536)  # type: ignore[union-attr]
            if key.fd not in delays and b"call-" + call in received[key.fd]:
                delays[key.fd] = time.perf_counter() - began
    return [*delays.values(), *[float("inf")] * (dashboards - len(delays))]


def measure(_options: Options) -> list[Figure]:
    with run_pages(DASHBOARDS) as (product, selector):
        numbers = count()

        def post_events() -> list[float]:
            bodies = [load.body(5 * next(numbers) + 1) for _ in range(EVENTS)]
            return [one for body in bodies for one in post_event(selector, product, body, DASHBOARDS)]

        rounds = [sorted(post_events()) for _ in range(ROUNDS)]
    percentiles = {"p50": (0.5, 50), "p99": (0.99, 200)}
    return [
        Figure(
            f"webhook to changed row, {DASHBOARDS} open pages: {name}",
            "ms",
            [1000 * one[int(len(one) * share)] for one in rounds],
            goals=(Goal(limit),),
        )
        for name, (share, limit) in percentiles.items()
    ]


BENCHMARK = Benchmark(
    title="From a webhook to the changed row in 100 open pages",
    measure=measure,
)
