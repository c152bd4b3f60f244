"""Results of benchmarks: printed, and kept as JSON for tests/benchmarks/results/README.md."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import integration
from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Figure
from tests.trials.long_form import get_commit

RESULTS = Path(__file__).parents[1] / "results"


def describe_machine() -> dict[str, Any]:
    """Return processor, memory, versions, and the load before the run."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": round(os.getloadavg()[0], 1),
    }


def make_result(
    name: str, benchmark: Benchmark, figures: list[Figure], machine: dict[str, Any], seconds: float
) -> dict[str, Any]:
    return {
        "name": name,
        "title": benchmark.title,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        "version": integration.__version__,
        "commit": get_commit(),
        "machine": machine,
        "seconds": round(seconds),
        "figures": [_round_figure(figure.to_json()) for figure in figures],
    }


def _round_figure(data: dict[str, Any]) -> dict[str, Any]:
    def round_all(values: Any) -> list[float]:
        return [float(f"{value:.4g}") for value in values]

    peers = {peer: round_all(values) for peer, values in data["peers"].items()}
    return {**data, "values": round_all(data["values"]), "peers": peers}


def store(result: dict[str, Any], folder: Path = RESULTS) -> None:
    folder.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (folder / f"{result['name']}.json").write_text(text, "utf-8")


def load_all(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Return the kept results by name."""
    return {path.stem: load(path) for path in sorted(folder.glob("*.json"))}


def load(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return result


def print_figures(figures: list[Figure]) -> None:
    """Print each figure with its peers, ratios and goals."""
    for figure in figures:
        size = f", {figure.size:,} records" if figure.size else ""
        print(f"  {figure.name}{size}, {figure.unit}")
        print(f"    {PRODUCT:44} {figure.spread().describe()}")
        for peer in figure.peers:
            spread, ratio = figure.peer_spread(peer), figure.ratio(peer)
            print(f"    {peer:44} {spread.describe():28} ratio {ratio.describe()}")
        for peer, reason in figure.missing.items():
            print(f"    {peer:44} MISSING: {reason}")
        for goal in figure.goals:
            verdict = {True: "met", False: "MISSED", None: "not compared"}[figure.compare(goal)]
            print(f"    goal {goal.describe():39} {verdict}")
    print(flush=True)
