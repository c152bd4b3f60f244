"""Benchmark of a start after a crash, of idle memory, and of idle work.

Supervisor and worker of `switchroom serve` are killed after webhooks. A start is measured from the start of
the process to `/readyz` and until the receiver responds, beside an interpreter that only imports Flask and
Granian. Then the worker alone is killed. Idle figures are those of a minute without calls and pages, with the
simulator as the platform.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Figure, Goal, Options, make_figure
from tests.benchmarks.tools.data_dirs import get_data_dir, run_product
from tests.benchmarks.tools.processes import (
    drop_from_page_cache,
    read_cpu,
    read_family,
    read_memory,
    run_process,
)
from tests.support.harness import Product, Simulator, run_installation, wait_for
from tests.trials.tools import databases

ROUNDS, SMALL_ROUNDS = 5, 1
WEBHOOKS = 500
IMPORTS = "an interpreter that imports Flask and Granian"
RECEIVER = "start of the product to stored webhooks"
REPLACED = "kill of the worker to stored webhooks"
IDLE_SECONDS, QUIET_SECONDS = 60.0, 5.0


def measure(options: Options) -> list[Figure]:
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    data_dir = get_data_dir(rows)
    found: dict[str, list[float]] = {"cached": []} if options.is_small else {"cached": [], "not cached": []}
    peer: list[float] = []
    receiver: list[float] = []
    replaced: list[float] = []
    product = run_product(data_dir)
    try:
        memory = read_memory(read_family(product.pid))
        for number in range(SMALL_ROUNDS if options.is_small else ROUNDS):
            for name, seconds in found.items():
                first = time.time_ns() % 10**9
                load.run(
                    product.port or 0, product.webhook_path, requests=WEBHOOKS, connections=8, first=first
                )
                product.kill()
                if name == "not cached":
                    drop_from_page_cache(data_dir)
                begun = time.perf_counter()
                with ThreadPoolExecutor(1) as pool:
                    stored = pool.submit(_await_receiver, product, begun)
                    product.start()
                    seconds.append(time.perf_counter() - begun)
                    if name == "cached":
                        receiver.append(stored.result())
            assert product.worker is not None
            os.kill(product.worker, signal.SIGKILL)
            replaced.append(_await_receiver(product, time.perf_counter()))
            product.ready()
            peer.append(run_process([sys.executable, "-c", "import flask, granian"]).seconds)
            memory = max(memory, read_memory(read_family(product.pid))) if number else memory
    finally:
        product.stop()
    starts = [
        make_figure(f"start to ready after a kill, files {name}", "s", {PRODUCT: seconds, IMPORTS: peer},
                    goals=(Goal(2),), size=rows)
        for name, seconds in found.items()
    ]  # fmt: skip
    starts += [
        make_figure(RECEIVER, "s", {PRODUCT: receiver, IMPORTS: peer}, goals=(Goal(1),), size=rows),
        make_figure(REPLACED, "s", {PRODUCT: replaced, IMPORTS: peer}, goals=(Goal(0.3),), size=rows),
    ]
    if options.is_small:
        return starts
    memory_figure = Figure(
        "memory after a start: supervisor and worker", "MB", [memory], goals=(Goal(120),), size=rows
    )
    return [*starts, memory_figure, *_measure_idle()]


def _await_receiver(product: Product, begun: float) -> float:
    """Return the seconds from `begun` (time.perf_counter) until the receiver responds."""
    wait_for(lambda: product.client.send("GET", product.webhook_path)[0] == 200, "the receiver", 240)
    return time.perf_counter() - begun


def _measure_idle() -> list[Figure]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="switchroom-bench-"))
        data_dir = Path(folder) / "data"
        simulator, product = stack.enter_context(
            run_installation(data_dir, "--seed", "5", "--no-traffic", "--cdrs", "1000")
        )
        wait_for(lambda: databases.is_complete(data_dir, "cdrs", "monitors", "sms"), "the initial sync", 300)
        requests, cpu = _await_silence(simulator, product)
        threading.Event().wait(IDLE_SECONDS)
        family = read_family(product.pid)
        spent = sum(map(read_cpu, family)) - cpu
        made = _count_requests(simulator) - requests
        return [
            Figure("idle: memory of supervisor and worker", "MB", [read_memory(family)], goals=(Goal(120),)),
            Figure("idle: CPU", "% of a core", [100 * spent / IDLE_SECONDS], goals=(Goal(2),)),
            Figure("idle: requests to the platform", "per minute", [made / IDLE_SECONDS * 60]),
        ]


def _await_silence(simulator: Simulator, product: Product) -> tuple[int, float]:
    """Wait until no request was sent for QUIET_SECONDS.

    Returns requests so far, and CPU seconds.
    """
    last, since = -1, time.monotonic()

    def is_silent() -> bool:
        nonlocal last, since
        if (total := _count_requests(simulator)) != last:
            last, since = total, time.monotonic()
        return time.monotonic() - since > QUIET_SECONDS

    wait_for(is_silent, "the end of the first syncs", 300)
    return last, sum(map(read_cpu, read_family(product.pid)))


def _count_requests(simulator: Simulator) -> int:
    return int(simulator.control("GET", "log?after=1000000000")["total"])


BENCHMARK = Benchmark(
    title="Start after a crash, idle memory, idle work",
    measure=measure,
    rows=(1_000_000,),
    bounds={"start to ready after a kill, files cached": Goal(15, IMPORTS)},
)
