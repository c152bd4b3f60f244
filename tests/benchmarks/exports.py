"""Benchmark of exports of all CDRs as CSV, and of 100,000 as XLSX.

Whole processes, from their start to their end, with the same columns: `switchroom export` beside the sqlite3
shell, sqlite-utils and XlsxWriter. Over HTTP: the first byte of the product's response, and Datasette's CSV
stream. Each file is compared with the number of its rows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from integration.catalogue import get_resource
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.data_dirs import add_key, get_data_dir, make_environment, run_product
from tests.benchmarks.tools.processes import BIN, Requests, Run, run_datasette, run_process

ROUNDS, SMALL_ROUNDS = 3, 2
SHEET_ROWS = 100_000
SHELL, UTILS, DATASETTE, WRITER = "sqlite3 -csv", "sqlite-utils", "Datasette's stream", "XlsxWriter"
COLUMNS = [field.name for field in get_resource("cdrs").fields if field.documented]
SQL = "SELECT " + ", ".join(f'"{name}"' for name in COLUMNS) + " FROM cdrs ORDER BY id"


def measure(options: Options) -> list[Figure]:
    (rows,) = options.rows[-1:] or BENCHMARK.rows
    rounds = SMALL_ROUNDS if options.is_small else ROUNDS
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        out = Path(folder) / "out"
        figures = _measure_csv(get_data_dir(rows), out, rows, rounds)
        if options.is_small:
            return figures
        figures += _measure_http(get_data_dir(rows), rows)
        return figures + _measure_xlsx(get_data_dir(rows), out, min(rows, SHEET_ROWS))


def make_export(data_dir: Path, out: Path, format_: str, *more: str) -> Callable[[], Run]:
    """Return a function that runs `switchroom export cdrs`."""
    command = [
        sys.executable,
        "app.py",
        "export",
        "cdrs",
        "--format",
        format_,
        "--out",
        str(out),
        "--quiet",
        *more,
    ]
    return lambda: run_process(command, environment=make_environment(data_dir))


def _measure_csv(data_dir: Path, out: Path, rows: int, rounds: int) -> list[Figure]:
    path = str(data_dir / "mirror.db")
    runs: dict[str, Callable[[], Run]] = {
        PRODUCT: make_export(data_dir, out, "csv"),
        SHELL: lambda: run_process(["sqlite3", "-csv", "-header", "-readonly", path, SQL], out),
        UTILS: lambda: run_process([str(BIN / "sqlite-utils"), "query", path, SQL, "--csv"], out),
    }
    peaks: dict[str, list[float]] = {name: [] for name in runs}
    work: dict[str, list[float]] = {name: [] for name in runs}

    def make_contender(name: str) -> Callable[[], float]:
        def run() -> float:
            made = runs[name]()
            peaks[name].append(made.megabytes)
            work[name].append(made.cpu)
            lines = _count_lines(out)
            assert lines >= rows + 1, f"{name}: {lines:,} lines of {rows:,} records"
            return made.seconds

        return run

    found = alternate(rounds, {name: make_contender(name) for name in runs})
    return [
        make_figure("CSV of all CDRs, as a process", "s", found,
                    goals=(Goal(1.0, SHELL),), size=rows),
        make_figure("CSV of all CDRs, CPU of the process", "CPU seconds", work, size=rows),
        make_figure("CSV of all CDRs: peak memory", "MB", peaks,
                    goals=(Goal(100),), size=rows),
    ]  # fmt: skip


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _measure_http(data_dir: Path, rows: int) -> list[Figure]:
    with ExitStack() as stack:
        product = run_product(data_dir)
        stack.callback(product.stop)
        requests = Requests(product.port or 0, {"X-Auth-Token": add_key(product)})
        found = [requests.measure_stream("/exports/cdrs.csv") for _ in range(ROUNDS)]
        # Datasette runs once: a million rows take it minutes.
        datasette = Requests(stack.enter_context(run_datasette(data_dir / "mirror.db")))
        first_byte, last_byte = datasette.measure_stream("/mirror/cdrs.csv?_stream=on&_size=max")
    return [
        Figure("CSV over HTTP: first byte", "ms", [first for first, _ in found],
               {DATASETTE: [first_byte] * ROUNDS}, goals=(Goal(200),), size=rows),
        Figure("CSV over HTTP: last byte", "s", [last / 1000 for _, last in found],
               {DATASETTE: [last_byte / 1000] * ROUNDS}, size=rows),
    ]  # fmt: skip


def _measure_xlsx(data_dir: Path, out: Path, rows: int) -> list[Figure]:
    first = json.dumps([{"property": "id", "operator": "lt", "value": rows + 1}])
    export = make_export(data_dir, out, "xlsx", "--filter", first)
    sql = SQL.replace(" ORDER BY", f" WHERE id < {rows + 1} ORDER BY")
    peer = [sys.executable, "-m", "tests.benchmarks.peers.xlsx_writer"]
    peer += [str(data_dir / "mirror.db"), str(out), sql]
    runs: dict[str, list[Run]] = {PRODUCT: [], WRITER: []}

    def measure_run(name: str, work: Callable[[], Run]) -> float:
        runs[name].append(work())
        return runs[name][-1].seconds

    contenders = {
        PRODUCT: lambda: measure_run(PRODUCT, export),
        WRITER: lambda: measure_run(WRITER, lambda: run_process(peer)),
    }
    name = f"XLSX of {rows:,} CDRs"
    seconds = alternate(2, contenders)
    work = {name: [run.cpu for run in made] for name, made in runs.items()}
    return [
        make_figure(f"{name}, as a process", "s", seconds, goals=(Goal(1.2, WRITER),), size=rows),
        make_figure(f"{name}, CPU of the process", "CPU seconds", work, size=rows),
    ]


BENCHMARK = Benchmark(
    title="Exports: CSV and XLSX as whole processes, first byte over HTTP",
    measure=measure,
    rows=(1_000_000,),
    bounds={"CSV of all CDRs, as a process": Goal(3, UTILS)},
)
