"""Figures, bounds, data and page of the benchmarks."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.__main__ import find_benchmarks
from tests.benchmarks.tools import page
from tests.trials.tools.seeded_bug import PLANTS


def test_the_page_has_the_results_that_are_kept(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "of-an-earlier-unit.svg").write_text("<svg/>")
    page.write(find_benchmarks(), tmp_path / "README.md", tmp_path / "charts")
    remedy = "run `python -m tests.benchmarks --page-only`"
    assert (tmp_path / "README.md").read_text("utf-8") == page.PAGE.read_text("utf-8"), remedy
    kept = {path.name: path.read_text("utf-8") for path in page.CHARTS.glob("*.svg")}
    made = {path.name: path.read_text("utf-8") for path in (tmp_path / "charts").glob("*.svg")}
    assert made == kept, remedy


def test_every_module_is_a_benchmark_and_every_bound_has_its_slowdown() -> None:
    benchmarks = find_benchmarks()
    assert {"webhooks", "full_sync", "facade", "pages", "exports", "start", "growth"} <= benchmarks.keys()
    bounds = [bound for benchmark in benchmarks.values() for bound in benchmark.bounds]
    assert len(bounds) >= 7
    assert [bound.slowdown for bound in bounds if bound.slowdown not in PLANTS] == []
