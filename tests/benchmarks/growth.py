"""Benchmark of the cost of the same work with 10,000 to 5,000,000 CDRs.

Pages, searches and webhooks must cost the same at every size, and so must each record of a sync or an export.
CPU time is compared, which other work of the machine changes least.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import ExitStack

from tests.benchmarks import exports, pages
from tests.benchmarks.streams import log_in
from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import Benchmark, Figure, Goal, Options
from tests.benchmarks.tools.data_dirs import PARTS, get_data_dir, run_product
from tests.benchmarks.tools.processes import Requests, read_family, read_thread_cpu
from tests.support.harness import Product, wait_for
from tests.trials.tools import databases

SIZES = (10_000, 100_000, 1_000_000)
ROUNDS = 7
WEBHOOKS, ROUNDS_OF_WEBHOOKS = 2000, 3
CONSTANT, LINEAR = 2.0, 1.5
"""Highest ratio of the cost at the largest and the smallest size."""

REQUESTS = {
    # A week of the smallest office has fewer calls than a page.
    "history page": pages.PAGES["history, a month"],
    "search of a number": pages.SEARCHES["search, a number with one call"],
    "search of a name": pages.SEARCHES["search, a name"],
    "report of a month": pages.REPORTS["report of a month"],
}


def measure(options: Options) -> list[Figure]:
    sizes = sorted(options.rows or BENCHMARK.rows)
    by_size = {rows: _measure_size(rows, options) for rows in sizes}
    figures = [figure for found in by_size.values() for figure in found]
    small, large = by_size[sizes[0]], by_size[sizes[-1]]
    for first, last in zip(small, large, strict=True):
        if len(sizes) > 1:
            is_linear = "a record" in first.name
            ratio = statistics.median(last.values) / statistics.median(first.values)
            name = f"{first.name}: {sizes[-1]:,} / {sizes[0]:,} CDRs"
            figures.append(Figure(name, "times", [ratio], goals=(Goal(LINEAR if is_linear else CONSTANT),)))
    return figures


def _measure_size(rows: int, options: Options) -> list[Figure]:
    # The calls of earlier webhooks would make the pages of a small office slower than its size does. The cost
    # of the sync is that of the commit which made the directory.
    data_dir = get_data_dir(rows, without_webhooks=True, of_this_commit=True)
    parts = json.loads((data_dir / PARTS).read_text())
    figures = [Figure("sync of a record", "CPU µs", [parts["sync, CPU"] / rows * 1e6], size=rows)]
    out = data_dir / "growth.csv"
    export = exports.make_export(data_dir, out, "csv")
    runs = [export() for _ in range(3)]
    figures.append(Figure("CSV of a record", "CPU µs", [run.cpu / rows * 1e6 for run in runs], size=rows))
    out.unlink()
    with ExitStack() as stack:
        product = run_product(data_dir)
        stack.callback(product.stop)
        cookie = log_in(product, f"growth{time.time_ns()}@example.com")
        worker = read_family(product.pid)[-1]
        headers = {"Cookie": cookie, "Accept": "text/html"}
        browser = Requests(product.port or 0, headers, worker)
        for name, path in REQUESTS.items():
            browser.get(path)
            for _ in range(ROUNDS):
                browser.measure(path)
            figures.append(Figure(name, "CPU ms", browser.cpu[-ROUNDS:], size=rows))
        spent = [_measure_webhooks(product, worker) for _ in range(1 + ROUNDS_OF_WEBHOOKS)]
        figures.append(Figure("a webhook, until it is applied", "CPU ms", spent[1:], size=rows))
    return figures


def _measure_webhooks(product: Product, worker: int) -> float:
    """Send webhooks. Returns CPU milliseconds of each until all are applied."""
    before, first = read_thread_cpu(worker), time.time_ns() % 10**9
    load.run(product.port or 0, product.webhook_path, requests=WEBHOOKS, connections=32, first=first)
    wait_for(lambda: not databases.count_unapplied(product.data_dir), "all webhooks applied", 300)
    return (read_thread_cpu(worker) - before) / WEBHOOKS * 1000


BENCHMARK = Benchmark(
    title="Cost as data grows",
    measure=measure,
    rows=SIZES,
)
