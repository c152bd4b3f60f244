"""From a webhook to the changed row on the wire of every open dashboard: 100 streams, one reader."""

from __future__ import annotations

import http.cookiejar
import re
import selectors
import socket
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from tests.benchmarks import load
from tests.support.harness import Client, Product

EMAIL, PASSWORD = "bench@example.com", "a long enough password"
SILENCE = 20.0
"""Seconds without the rest of the answers after which they count as lost."""


def session_of(product: Product) -> str:
    """The cookie of somebody who logged in."""
    added = product.command("user", "add", EMAIL, "--role", "admin", "--password-stdin", stdin=PASSWORD)
    assert added.returncode == 0, added.stderr
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    page = browser.open(f"{product.url}/login").read().decode()
    token = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert token is not None
    form = {"csrf_token": token[1], "email": EMAIL, "password": PASSWORD}
    browser.open(f"{product.url}/login", urllib.parse.urlencode(form).encode()).read()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def measure(events: int, dashboards: int) -> list[float]:
    """Seconds from sending each webhook until each stream showed its call; inf for one that never did."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        product = Product(Path(folder) / "data")
        selector = selectors.DefaultSelector()
        try:
            cookie = session_of(product)
            for _ in range(dashboards):
                stream = socket.create_connection(("127.0.0.1", product.port))
                stream.sendall(
                    f"GET /live/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
                )
                assert b" 200 " in stream.recv(4096)
                stream.setblocking(False)
                selector.register(stream, selectors.EVENT_READ)
            client, waits = Client(product.url), []
            for number in range(events):
                body = load.body(5 * number + 1)
                call = re.search(rb'"call_id":(\d+)', body)
                assert call is not None
                waits += one(selector, client, product.webhook_path, body, call[1], dashboards)
            return waits
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            product.stop()


def one(
    selector: selectors.BaseSelector, client: Client, path: str, body: bytes, call: bytes, dashboards: int
) -> list[float]:
    """Post one event and wait until every stream has told of its call."""
    began, told = time.perf_counter(), {}
    status, _, _ = client.ask("POST", path, body, {"Content-Type": "application/json"})
    assert status == 200
    seen: dict[int, bytes] = {}
    while len(told) < dashboards:
        ready = selector.select(SILENCE)
        if not ready:
            break
        for key, _ in ready:
            seen[key.fd] = seen.get(key.fd, b"") + key.fileobj.recv(65536)  # type: ignore[union-attr]
            if key.fd not in told and b"call-" + call in seen[key.fd]:
                told[key.fd] = time.perf_counter() - began
    return [*told.values(), *[float("inf")] * (dashboards - len(told))]


def main(events: int, dashboards: int = 100) -> dict[str, float]:
    """Prints p50, p99 and the worst; returns them in milliseconds."""
    waits = sorted(measure(events, dashboards))
    ends = {
        name: 1000 * waits[min(len(waits) - 1, int(len(waits) * part))]
        for name, part in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))
    }
    print(f"webhook to changed row, {dashboards} dashboards open, {events} events")
    print("  " + "  ".join(f"{name} {milliseconds:7.1f} ms" for name, milliseconds in ends.items()))
    return ends
