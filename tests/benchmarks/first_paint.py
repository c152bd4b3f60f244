"""Benchmark of the time until a browser first paints a page, with ten years of calls."""

from __future__ import annotations

import statistics
import time

from tests.benchmarks.pages import PAGES, REPORTS, SEARCHES
from tests.benchmarks.streams import log_in
from tests.benchmarks.tools.benchmark import Benchmark, Figure, Goal, Options
from tests.benchmarks.tools.data_dirs import get_data_dir, run_product
from tests.conftest import CHROMIUM, CHROMIUM_ARGUMENTS

ROUNDS = 5
LIMIT = 300.0
"""Milliseconds from the click to the first text or picture."""
FIRST_PAINT = """() => new Promise(resolve => new PerformanceObserver((list) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (paint) resolve(paint.startTime);
}).observe({ type: "paint", buffered: true }))"""


def measure(options: Options) -> list[Figure]:
    from playwright.sync_api import sync_playwright

    (rows,) = options.rows[-1:] or BENCHMARK.rows
    paths = {**PAGES, **REPORTS, "search, a name": SEARCHES["search, a name"]}
    product = run_product(get_data_dir(rows), options.program)
    try:
        cookies = log_in(product, f"paint{time.time_ns()}@example.com").split("; ")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            for name, value in (cookie.split("=", 1) for cookie in cookies):
                context.add_cookies([{"name": name, "value": value, "url": product.url}])
            page = context.new_page()
            # Styles and scripts come from the browser's cache on all pages but the first.
            page.goto(f"{product.url}/profile")
            found: dict[str, list[float]] = {title: [] for title in paths}
            for _ in range(ROUNDS):
                for title, path in paths.items():
                    page.goto(product.url + path, wait_until="commit")
                    found[title].append(page.evaluate(FIRST_PAINT))
            browser.close()
    finally:
        product.stop()
    slowest = max(statistics.median(values) for values in found.values())
    return [
        *(Figure(title, "ms", values, goals=(Goal(LIMIT),), size=rows) for title, values in found.items()),
        Figure("slowest page", "ms", [slowest], goals=(Goal(LIMIT),), size=rows),
    ]


BENCHMARK = Benchmark(
    title="First paint of the dashboard's pages",
    measure=measure,
    minutes=1,
    rows=(1_000_000,),
    remarks=(
        "Chromium without a window, 1440 × 900, on the same machine. Each round opens every page. Needs the "
        "extra `browser`."
    ),
)
