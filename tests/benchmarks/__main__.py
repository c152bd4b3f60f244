"""Benchmarks: `python -m tests.benchmarks [NAME …] [--rows N] [--json FILE]`.

Each measures the product from the outside, as a process or over HTTP, beside its peers in the same run and in
alternating order. Results are kept in tests/benchmarks/results, and the page README.md there is written from
them. A module of this folder that defines `BENCHMARK` is a benchmark.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

from tests.benchmarks.tools import check, page, results
from tests.benchmarks.tools.benchmark import Benchmark, Options


def find_benchmarks() -> dict[str, Benchmark]:
    """Return the benchmarks by the names of their modules."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    modules = {name: importlib.import_module(f"tests.benchmarks.{name}") for name in names}
    return {name: module.BENCHMARK for name, module in modules.items()}


def main(arguments: list[str]) -> int:
    benchmarks = find_benchmarks()
    lines = [f"  {name:12} {one.title} (about {one.minutes:g} min)" for name, one in benchmarks.items()]
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        epilog="\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument(
        "--rows", metavar="N[,N]", default="", help="numbers of CDRs, by default each benchmark's own"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results of this run")
    parser.add_argument(
        "--dlt", metavar="PYTHON", default="build/dlt/bin/python", help="a Python that has dlt[sqlalchemy]"
    )
    parser.add_argument(
        "--no-page",
        action="store_true",
        help="do not keep the results, do not write their page",
    )
    parser.add_argument(
        "--page-only",
        action="store_true",
        help="write the page of the kept results",
    )
    parser.add_argument("--check", action="store_true", help="check generous bounds at a small size, as CI")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(benchmarks):
        parser.error(f"unknown benchmark {min(unknown)!r}; use one of {', '.join(benchmarks)}")
    selected = {name: benchmarks[name] for name in options.names or benchmarks}
    if options.check:
        return check.run(selected)
    if not options.page_only:
        rows = tuple(int(number.replace("_", "")) for number in options.rows.split(",") if number)
        made = [_run(name, one, Options(rows, options.dlt)) for name, one in selected.items()]
        if options.json:
            options.json.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
        if options.no_page:
            return 0
        for result in made:
            results.store(result)
    page.write(benchmarks)
    return 0


def _run(name: str, benchmark: Benchmark, options: Options) -> dict[str, object]:
    """Run a benchmark, and print its figures."""
    print(f"{name}: {benchmark.title}", flush=True)
    machine, begun = results.describe_machine(), time.perf_counter()
    figures = benchmark.measure(options)
    seconds = time.perf_counter() - begun
    results.print_figures(figures)
    print(f"  {seconds:.0f} s\n", flush=True)
    return results.make_result(name, benchmark, figures, machine, seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
