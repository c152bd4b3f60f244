"""Benchmark of durable webhooks, over 32 and 200 connections.

The product is compared with a simple receiver that commits each request durably, and with a handler that does
nothing on the product's server. All servers run during all rounds; only one of them has load at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.processes import BIN, run_granian, run_server
from tests.support.harness import Product, free_port

CONNECTIONS = (32, 200)
REQUESTS, SMALL_REQUESTS = 6000, 600
ROUNDS, SMALL_ROUNDS = 5, 2
NAIVE, NOOP = "Flask + gunicorn, a commit per request", "the same server, a handler that does nothing"


def measure(options: Options) -> list[Figure]:
    counts = CONNECTIONS[:1] if options.is_small else CONNECTIONS
    return [figure for connections in counts for figure in _measure(connections, options)]


def _measure(connections: int, options: Options) -> list[Figure]:
    requests = SMALL_REQUESTS if options.is_small else REQUESTS
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchroom-bench-"))
        product = Product(Path(folder) / "data")
        stack.callback(product.stop)
        targets = {PRODUCT: (product.port, product.webhook_path), NAIVE: (free_port(), "/hook")}
        gunicorn = [str(BIN / "gunicorn"), "-k", "gthread", "--threads", str(connections)]
        gunicorn += ["--keep-alive", "30", "-b", f"127.0.0.1:{targets[NAIVE][0]}"]
        command = [*gunicorn, "tests.benchmarks.peers.naive_receiver:app"]
        environment = {"NAIVE_DATABASE": f"{folder}/naive.db"}
        stack.enter_context(run_server(command, targets[NAIVE][0], environment))
        targets[NOOP] = stack.enter_context(run_granian("tests.benchmarks.peers.noop:app")), "/hook"
        found: dict[str, list[load.Load]] = {name: [] for name in targets}
        numbers = count()

        def make_contender(name: str, requests: int) -> Callable[[], float]:
            port, path = targets[name]

            def run() -> float:
                # Each round has new events: a repeated one is less work.
                first = next(numbers) * requests
                made = load.run(port, path, requests=requests, connections=connections, first=first)
                # A peer may refuse webhooks under load; only its acknowledgements count.
                assert name != PRODUCT or not made.failures, f"{made.failures} of {requests} requests failed"
                found[name].append(made)
                return made.per_second

            return run

        alternate(1, {name: make_contender(name, requests) for name in targets})
        for results in found.values():
            results.clear()
        rounds = SMALL_ROUNDS if options.is_small else ROUNDS
        rates = alternate(rounds, {name: make_contender(name, requests) for name in targets})
    p99 = {name: [one.p99 * 1000 for one in results] for name, results in found.items()}
    return [
        make_figure(
            f"durable webhooks, {connections} connections",
            "per second",
            rates,
            goals=(Goal(3, NAIVE, is_minimum=True), Goal(0.75, NOOP, is_minimum=True)),
        ),
        make_figure(
            f"p99 of a webhook, {connections} connections",
            "ms",
            p99,
            goals=(Goal(0.1, NAIVE),),
        ),
    ]


BENCHMARK = Benchmark(
    title="Durable webhooks per second, and their 99th percentile",
    measure=measure,
    bounds={"durable webhooks, 32 connections": Goal(0.15, NOOP, is_minimum=True)},
)
