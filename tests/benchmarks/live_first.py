"""Benchmark of webhooks and pages during an initial sync.

Work of users goes before bulk work. While the product stores its
CDRs, assembles their calls and indexes them, a client posts the events of new calls, waits until an open live
stream shows each, and requests pages. Afterwards the same client measures the product at rest.
`python -m tests.benchmarks live_first --rows 200000`
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.benchmarks import streams
from tests.benchmarks.tools import load
from tests.benchmarks.tools.benchmark import Benchmark, Figure, Goal, Options
from tests.benchmarks.tools.data_dirs import run_platform
from tests.support.harness import wait_for
from tests.trials.tools.databases import query_number

PAGES = ("/", "/calls", "/calls?range=all", "/missed", "/messages", "/system")
CALLS_PER_SECOND = 5
"""Rate of new calls, each with two webhooks: that of a busy office."""
PAGE_EVERY = 3
"""Calls between two requests of pages."""
CALLS_AT_REST = 60
FIRST = 5 * 10**9
"""Number of the first event. Its call is not among those of the platform's CDRs."""


@dataclass
class Delays:
    """Seconds until changed rows and pages of one phase."""

    rows: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)


def get_share(values: list[float], share: float) -> float:
    """Return the value below which `share` of the values are."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measure(options: Options) -> list[Figure]:
    """Measure the delays of each phase."""
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    phases = {name: Delays() for name in ("storing", "assembling", "at rest")}
    with (
        run_platform(rows) as url,
        streams.run_pages(1, base_url=url, recordings__download="false") as (product, selector),
    ):
        mirror, cookie = product.data_dir / "mirror.db", streams.log_in(product, "bench@example.com")
        wait_for(lambda: query_number(mirror, "SELECT count(*) FROM cdrs") > 0, "the first CDRs", 120)
        phase, checked_at = "storing", 0.0
        for number in count():
            begun = time.perf_counter()
            if phase != "at rest" and begun - checked_at > 1:
                phase, checked_at = find_phase(mirror, rows), begun
            delays = phases[phase]
            if len(phases["at rest"].rows) == CALLS_AT_REST:
                break
            ringing, hangup = (load.body(FIRST + 5 * number + step) for step in (1, 4))
            delays.rows += streams.post_event(selector, product, ringing, 1)
            assert product.client.send("POST", product.webhook_path, hangup)[0] == 200
            if number % PAGE_EVERY == 0:
                requested, page = time.perf_counter(), PAGES[number // PAGE_EVERY % len(PAGES)]
                status, _, _ = product.client.send("GET", page, headers={"Cookie": cookie})
                assert status == 200, (page, status)
                delays.pages.append(time.perf_counter() - requested)
            time.sleep(max(0.0, begun + 1 / CALLS_PER_SECOND - time.perf_counter()))
    figures = []
    for name, delays in phases.items():
        is_busy = name != "at rest"
        for what, values, goal in (
            ("webhook to changed row", delays.rows, 1000),
            ("page", delays.pages, 300),
        ):
            if values:
                figures += [
                    Figure(f"{name}: {what}, p50", "ms", [1000 * get_share(values, 0.5)], size=rows),
                    Figure(
                        f"{name}: {what}, p99",
                        "ms",
                        [1000 * get_share(values, 0.99)],
                        goals=(Goal(goal),) if is_busy else (),
                        size=rows,
                    ),
                ]
    return figures


def find_phase(mirror: Path, rows: int) -> str:
    """Return the present phase of the initial sync."""
    if query_number(mirror, "SELECT count(*) FROM cdrs") < rows:
        return "storing"
    pending = (
        "SELECT EXISTS (SELECT 1 FROM _due WHERE derived = 'legs')"
        " OR EXISTS (SELECT 1 FROM _due WHERE derived = 'search' AND low < high)"
    )
    return "assembling" if query_number(mirror, pending) else "at rest"


BENCHMARK = Benchmark(
    title="Live calls and pages during an initial sync",
    measure=measure,
    rows=(200_000,),
)
