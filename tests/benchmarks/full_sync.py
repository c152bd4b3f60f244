"""Benchmark of the initial sync of all CDRs, until each call is assembled and can be searched.

Whole processes that read the same platform, which prepares the next page while the last one is stored, so
that no contender waits for it. The minimal loop uses requests, orjson and executemany, with a table of
the same columns, and builds the same indexes after the rows; it makes no calls. dlt has its default settings.
Two mixes: an office, whose numbers, groups and transfers repeat (tools/office.py), and strangers, where
nothing repeats (tools/strangers.py).
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.data_dirs import run_platform
from tests.benchmarks.tools.processes import Run, run_process

MIXES = ("office", "strangers")
ROUNDS, DLT_ROUNDS = 3, 2
LOOP, DLT = "a minimal loop, indexes after", "dlt"


def measure(options: Options) -> list[Figure]:
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    mixes = MIXES[:1] if options.is_small else MIXES
    return [figure for mix in mixes for figure in _measure_mix(options, rows, mix)]


def _measure_mix(options: Options, rows: int, mix: str) -> list[Figure]:
    with run_platform(rows, mix) as url:
        product = [sys.executable, "-m", "tests.benchmarks.tools.product_sync", url]
        loop = [sys.executable, "-m", "tests.benchmarks.peers.bare_loop", url]
        commands = {PRODUCT: (product, "mirror.db"), LOOP: (loop, "mirror.db")}
        if options.dlt is not None:
            script = str(Path(__file__).parent / "peers" / "dlt_sync.py")
            commands[DLT] = ([options.dlt, script, url], "dlt.db")
        stages: list[dict[str, float]] = []
        peaks: dict[str, list[float]] = {name: [] for name in commands}
        work: dict[str, list[float]] = {name: [] for name in commands}

        def make_contender(name: str) -> Callable[[], float]:
            def run() -> float:
                command, file = commands[name]
                made, printed = _run(command, file, rows)
                peaks[name].append(made.megabytes)
                work[name].append(made.cpu / rows * 100_000)
                if name == PRODUCT:
                    stages.append(json.loads(printed))
                return rows / made.seconds

            return run

        rounds = 1 if options.is_small else DLT_ROUNDS if options.dlt else ROUNDS
        rates = alternate(rounds, {name: make_contender(name) for name in commands})
    work_of_rows = {**work, PRODUCT: [stage["rows, CPU"] / rows * 100_000 for stage in stages]}
    return [
        make_figure(
            f"{mix}: until every call is searchable",
            "rows per second",
            {**rates, PRODUCT: [rows / stage["searchable"] for stage in stages]},
            goals=(Goal(0.3, LOOP, is_minimum=True), Goal(1.0, DLT, is_minimum=True)),
            size=rows,
        ),
        make_figure(
            f"{mix}: until all rows are stored",
            "rows per second",
            {**rates, PRODUCT: [rows / stage["rows"] for stage in stages]},
            goals=(Goal(0.9, LOOP, is_minimum=True),),
            size=rows,
        ),
        make_figure(
            f"{mix}: CPU until every call is searchable",
            "CPU seconds per 100,000 rows",
            work,
            size=rows,
        ),
        make_figure(
            f"{mix}: CPU until all rows are stored",
            "CPU seconds per 100,000 rows",
            work_of_rows,
            size=rows,
        ),
        make_figure(f"{mix}: peak memory", "MB", peaks, goals=(Goal(200),), size=rows),
    ]


def _run(command: list[str], file: str, rows: int) -> tuple[Run, str]:
    """Run a contender in an empty folder; check that it stored `rows`.

    Returns its output as well.
    """
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        out = Path(folder) / "out"
        made = run_process([*command, folder], out)
        with closing(sqlite3.connect(Path(folder) / file)) as connection:
            stored = connection.execute("SELECT count(DISTINCT id) FROM cdrs").fetchone()[0]
        assert stored == rows, f"{stored:,} of {rows:,} rows"
        return made, out.read_text()


BENCHMARK = Benchmark(
    title="Initial sync of CDRs until every call is assembled and searchable",
    measure=measure,
    rows=(100_000,),
    bounds={"office: until all rows are stored": Goal(0.12, LOOP, is_minimum=True)},
)
