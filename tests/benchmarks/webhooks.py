"""Durable webhooks per second at 32 connections, beside a naive receiver and a handler that does nothing."""

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
BIN = Path(sys.executable).parent


@contextmanager
def serving(arguments: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    process = Process(arguments, environment)
    client = Client(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: client.ask("GET", "/")[0] == 404, "the peer to answer")
        yield
    finally:
        process.stop()


def measure(requests: int) -> dict[str, load.Load]:
    """Each receiver in turn, on the same machine in the same minute; a warm-up first."""
    results: dict[str, load.Load] = {}
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        product = Product(Path(folder) / "data")
        try:
            results["Switchroom"] = timed(product.port, product.webhook_path, requests)
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
        with serving(gunicorn, port, {"NAIVE_DATABASE": os.path.join(folder, "naive.db")}):
            results["Flask + gunicorn, a commit per request"] = timed(port, "/hook", requests)
        port = free_port()
        granian = [str(BIN / "granian"), "--interface", "wsgi", "--port", str(port), "--no-access-log"]
        granian += ["--blocking-threads", "256", "tests.benchmarks.noop:app"]
        with serving(granian, port, {}):
            results["the same server, a handler that does nothing"] = timed(port, "/hook", requests)
    return results


def timed(port: int, path: str, requests: int) -> load.Load:
    warm = max(CONNECTIONS, requests // 10)
    load.run(port, path, requests=warm, connections=CONNECTIONS)
    return load.run(port, path, requests=requests, connections=CONNECTIONS, first=warm)


def main(requests: int) -> dict[str, float]:
    """Prints the table; returns the ratios by name."""
    results = measure(requests)
    ours = results["Switchroom"]
    naive = results["Flask + gunicorn, a commit per request"]
    noop = results["the same server, a handler that does nothing"]
    print(f"durable webhooks, {CONNECTIONS} connections, {requests} requests each")
    for name, result in results.items():
        print(
            f"  {name:46} {result.per_second:8.0f}/s  p50 {result.p50 * 1000:6.1f} ms"
            f"  p99 {result.p99 * 1000:7.1f} ms  failures {result.failures}"
        )
    ratios = {
        "times the naive receiver": ours.per_second / naive.per_second,
        "p99 against the naive receiver": ours.p99 / naive.p99,
        "of a handler that does nothing": ours.per_second / noop.per_second,
    }
    for name, ratio in ratios.items():
        print(f"  {ratio:6.2f} {name}")
    return ratios
