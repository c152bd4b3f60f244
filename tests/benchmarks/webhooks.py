"""Benchmark of durable webhooks per second, over 32 connections.

The product is compared with a simple receiver and with a handler that does nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import load
from tests.support.harness import Client, Process, Product, free_port, wait_for

CONNECTIONS = 32
PRODUCT = "Switchroom"
NAIVE = "Flask + gunicorn, a commit per request"
NOOP = "the same server, a handler that does nothing"
BIN = Path(sys.executable).parent


@contextmanager
def run_server(arguments: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    """Run a server until the end of the block."""
    process = Process(arguments, environment)
    client = Client(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: client.send("GET", "/")[0] == 404, "a response of the server")
        yield
    finally:
        process.stop()


def measure(requests: int) -> dict[str, load.Load]:
    """Measure the receivers one after the other, each after a warm-up."""
    results: dict[str, load.Load] = {}
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        product = Product(Path(folder) / "data")
        try:
            results[PRODUCT] = run_load(product.port, product.webhook_path, requests)
        finally:
            product.stop()
        port = free_port()
        gunicorn = [
            str(BIN / "gunicorn"),
            "-k",
            "gthread",
            "--threads",
            str(CONNECTIONS),
            "--keep-alive",
            "30",
        ]
        gunicorn += ["-b", f"127.0.0.1:{port}", "tests.benchmarks.naive_receiver:app"]
        with run_server(gunicorn, port, {"NAIVE_DATABASE": os.path.join(folder, "naive.db")}):
            results[NAIVE] = run_load(port, "/hook", requests)
        port = free_port()
        granian = [str(BIN / "granian"), "--interface", "wsgi", "--port", str(port), "--no-access-log"]
        granian += ["--blocking-threads", "256", "tests.benchmarks.noop:app"]
        with run_server(granian, port, {}):
            results[NOOP] = run_load(port, "/hook", requests)
    return results


def run_load(port: int, path: str, requests: int) -> load.Load:
    """Post a tenth of `requests` as a warm-up, then measure `requests`."""
    warm = max(CONNECTIONS, requests // 10)
    load.run(port, path, requests=warm, connections=CONNECTIONS)
    return load.run(port, path, requests=requests, connections=CONNECTIONS, first=warm)


def main(requests: int) -> dict[str, float]:
    """Print the table. Returns the ratios by name."""
    results = measure(requests)
    product, naive, noop = results[PRODUCT], results[NAIVE], results[NOOP]
    print(f"durable webhooks, {CONNECTIONS} connections, {requests} requests each")
    for name, result in results.items():
        print(
            f"  {name:46} {result.per_second:8.0f}/s  p50 {result.p50 * 1000:6.1f} ms"
            f"  p99 {result.p99 * 1000:7.1f} ms  failures {result.failures}"
        )
    ratios = {
        "times the simple receiver": product.per_second / naive.per_second,
        "p99, times the simple receiver": product.p99 / naive.p99,
        "times a handler that does nothing": product.per_second / noop.per_second,
    }
    for name, ratio in ratios.items():
        print(f"  {ratio:6.2f} {name}")
    return ratios
