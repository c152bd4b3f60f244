"""Benchmarks and their bounds."""

from __future__ import annotations

from tests.benchmarks.__main__ import find_benchmarks


def test_every_module_is_a_benchmark() -> None:
    benchmarks = find_benchmarks()
    assert {"webhooks", "full_sync", "facade", "pages", "exports", "start", "growth"} <= benchmarks.keys()
    assert sum(len(benchmark.bounds) for benchmark in benchmarks.values()) >= 7
