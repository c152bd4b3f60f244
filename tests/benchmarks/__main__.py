"""Benchmarks: `python -m tests.benchmarks [NAME …] [--rows N] [--json FILE]`.

Each measures the product from the outside, as a process or over HTTP, beside its peers in the same run and in
alternating order. It prints a section of tests/benchmarks/results/README.md. A module of this folder that
defines `BENCHMARK` is a benchmark.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Options
from tests.benchmarks.tools.data_dirs import get_commit


def find_benchmarks() -> dict[str, Benchmark]:
    """Return the benchmarks by the names of their modules."""
    names = sorted(
        path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith(("_", "test_"))
    )
    modules = {name: importlib.import_module(f"tests.benchmarks.{name}") for name in names}
    return {name: module.BENCHMARK for name, module in modules.items()}


def main(arguments: list[str]) -> int:
    benchmarks = find_benchmarks()
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        epilog="\n".join(f"  {name:12} {one.title}" for name, one in benchmarks.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument(
        "--rows", metavar="N[,N]", default="", help="numbers of CDRs, by default each benchmark's own"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of this run")
    parser.add_argument("--dlt", metavar="PYTHON", help="a Python that has dlt[sqlalchemy], to compare with")
    parser.add_argument("--check", action="store_true", help="check generous bounds at a small size, as CI")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(benchmarks):
        parser.error(f"unknown benchmark {min(unknown)!r}; use one of {', '.join(benchmarks)}")
    selected = {name: benchmarks[name] for name in options.names or benchmarks}
    if options.check:
        return _check(selected)
    rows = tuple(int(number.replace("_", "")) for number in options.rows.split(",") if number)
    made = {name: _run(one, Options(rows, options.dlt)) for name, one in selected.items()}
    if options.json:
        options.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


def _check(benchmarks: Mapping[str, Benchmark]) -> int:
    """Check the bounds of all benchmarks. Returns 1 if one fails twice, else 0.

    Other programs may have used the processors for a moment.
    """
    failures = []
    for name, benchmark in benchmarks.items():
        begun = time.perf_counter()
        if benchmark.bounds and (lines := benchmark.find_exceeded()):
            print(f"{name}: once more, after {lines}", flush=True)
            failures += benchmark.find_exceeded()
        print(f"{name}: checked in {time.perf_counter() - begun:.0f} s", flush=True)
    print(*(f"FAILED: {line}" for line in failures), sep="\n")
    return 1 if failures else 0


def _run(benchmark: Benchmark, options: Options) -> list[dict[str, Any]]:
    """Run a benchmark, and print its figures as a section of a Markdown page."""
    load, begun = os.getloadavg()[0], time.perf_counter()
    figures = benchmark.measure(options)
    print(
        f"## {benchmark.title}\n\n{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {get_commit()},"
        f" {time.perf_counter() - begun:.0f} s. {os.cpu_count()} cores, Python {platform.python_version()}."
        f" Load before the run: {load:.1f}.\n\n"
        f"| Figure | CDRs | {PRODUCT} | Peers and ratios | Goal |\n|---|---|---|---|---|"
    )
    print(*(figure.describe() for figure in figures), "", sep="\n", flush=True)
    return [asdict(figure) for figure in figures]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
