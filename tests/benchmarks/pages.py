"""Benchmark of the dashboard's pages with ten years of calls.

Whole requests over HTTP to `switchroom serve`. The first request of a page follows a restart with files that
are not in the page cache; the other requests repeat it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from tests.benchmarks.streams import log_in
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.data_dirs import get_data_dir, run_product
from tests.benchmarks.tools.office import LIVE, RARE_WORD, party, shared_number
from tests.benchmarks.tools.processes import Requests, drop_from_page_cache, run_granian

ROUNDS, SMALL_ROUNDS = 7, 3
PAGE_LIMIT, SEARCH_LIMIT, FIRST_LIMIT = 50.0, 100.0, 300.0
"""Milliseconds of a page, of a search, and of the first request after a start."""
NOOP = "the same server, a handler that does nothing"
OWN_NUMBER, SHARED_NUMBER = party(500), shared_number(1)
"""Number of one call, and one of the most frequent numbers."""

PAGES = {
    "history": "/calls",
    "history, all calls": "/calls?range=all",
    "history, a month": "/calls?range=month",
    "history, missed calls of all time": "/calls?range=all&outcome=not_talked",
    "history, of a person": "/calls?range=all&person=1000002",
    "history, of a number of the account": "/calls?range=all&line=442079460104",
    "history, an hour of a weekday": "/calls?range=all&weekday=1&hour=10",
    "live": "/",
    "missed": "/missed",
    "recordings": "/recordings",
    "contacts": "/contacts",
    "a call": f"/calls/{LIVE}",
}
SEARCHES = {
    "search, fragment of a number": f"/calls?range=all&q={SHARED_NUMBER[4:10]}",
    "search, a frequent number": f"/calls?range=all&q={SHARED_NUMBER}",
    "search, a number with one call": f"/calls?range=all&q={OWN_NUMBER}",
    "search, a name": "/calls?range=all&q=Quill",
    "search, a word of transcripts": f"/calls?range=all&q={RARE_WORD}",
    "search field, a name": "/palette?q=sample",
    "search field, a number": f"/palette?q={OWN_NUMBER}",
}
REPORTS = {
    "report of a month": "/reports?range=month",
    "report of a year": "/reports?range=year",
    "missed and called back, a year": "/reports/missed?range=year",
    "month in words": "/reports/summary?range=month",
}


def measure(options: Options) -> list[Figure]:
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    data_dir, rounds = get_data_dir(rows, without_webhooks=True), SMALL_ROUNDS if options.is_small else ROUNDS
    limits = dict.fromkeys([*PAGES, *REPORTS], PAGE_LIMIT) | dict.fromkeys(SEARCHES, SEARCH_LIMIT)
    paths = {**PAGES, **SEARCHES, **REPORTS}
    if options.is_small:
        paths = {name: paths[name] for name in ("history",)}
    with ExitStack() as stack:
        drop_from_page_cache(data_dir)
        product = run_product(data_dir)
        stack.callback(product.stop)
        cookie = log_in(product, f"benchmark{time.time_ns()}@example.com")
        headers = {"Cookie": cookie, "Accept": "text/html"}
        browser = Requests(product.port or 0, headers, product.worker)
        # Templates and styles are loaded by the first page, whichever it is.
        browser.get("/profile")
        first = {name: browser.measure(path) for name, path in paths.items()}
        noop = Requests(stack.enter_context(run_granian("tests.benchmarks.peers.noop:app")))
        figures = []
        for name, path in paths.items():
            if not options.is_small:
                figures.append(
                    Figure(
                        f"first request: {name}", "ms", [first[name]], goals=(Goal(FIRST_LIMIT),), size=rows
                    )
                )
            contenders = {
                PRODUCT: lambda path=path: browser.measure(path),
                NOOP: lambda: noop.measure("/hook"),
            }
            found = alternate(rounds, contenders)
            figures.append(make_figure(name, "ms", found, goals=(Goal(limits[name]),), size=rows))
            figures.append(Figure(f"{name}, server", "CPU ms", browser.cpu[-rounds:], size=rows))
    return figures


BENCHMARK = Benchmark(
    title="Pages of the dashboard: history, search, reports",
    measure=measure,
    rows=(1_000_000,),
    bounds={"history": Goal(300, NOOP)},
)
