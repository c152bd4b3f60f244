"""Check of generous bounds at a small size, each of which a planted slowdown must exceed."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.benchmarks.tools.benchmark import Benchmark, Bound, Figure, Options
from tests.trials.tools.seeded_bug import make_program


def run(benchmarks: Mapping[str, Benchmark]) -> int:
    """Check the bounds of all benchmarks, without and with slowdowns.

    A benchmark that fails runs once more: other programs may have used the processors for a moment. Returns 1
    if one fails twice, else 0.
    """
    failures = []
    for name, benchmark in benchmarks.items():
        if not benchmark.bounds:
            continue
        begun = time.perf_counter()
        if lines := check(benchmark):
            print(f"{name}: once more, after {'; '.join(lines)}", flush=True)
            failures += [f"{name}: {line}" for line in check(benchmark)]
        print(f"{name}: checked in {time.perf_counter() - begun:.0f} s", flush=True)
    for line in failures:
        print(f"FAILED: {line}")
    return 1 if failures else 0


def check(benchmark: Benchmark) -> list[str]:
    """Return a line for each bound that the product exceeds, or that its slowdown does not."""
    rows = (benchmark.SMALL_ROWS,) if benchmark.rows else ()
    failures = []
    figures = _find(benchmark.measure(Options(rows, is_small=True)))
    for bound in benchmark.bounds:
        slow = Options(rows, program=make_program([bound.slowdown]), is_small=True)
        normal, slowed = figures[bound.figure], _find(benchmark.measure(slow))[bound.figure]
        print(
            f"  {bound.figure}: {_describe(normal, bound)}, with {bound.slowdown} {_describe(slowed, bound)}"
        )
        if not normal.compare(bound.goal):
            failures.append(f"{bound.figure}: {_describe(normal, bound)}, not {bound.goal.describe()}")
        if slowed.compare(bound.goal):
            failures.append(f"{bound.figure}: {bound.slowdown} is not detected ({_describe(slowed, bound)})")
    return failures


def _find(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def _describe(figure: Figure, bound: Bound) -> str:
    peer = bound.goal.peer
    if peer is None:
        return figure.spread().describe()
    if peer not in figure.peers:
        return f"{peer} missing"
    return f"{figure.ratio(peer).describe()} × {peer}"
