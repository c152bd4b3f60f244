"""Benchmark of exports of all CDRs as CSV, and of 100,000 as XLSX.

Whole processes, from their start to their end, with the same columns: `switchroom export` beside the sqlite3
shell, sqlite-utils and XlsxWriter. Over HTTP: the first byte of the product's response, and Datasette's CSV
stream. Each file is compared with the number of its rows.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from integration.catalogue import get_resource
from tests.benchmarks.tools.benchmark import (
    PRODUCT,
    Benchmark,
    Bound,
    Figure,
    Goal,
    Options,
    alternate,
    make_figure,
)
from tests.benchmarks.tools.data_dirs import add_key, get_data_dir, make_environment, run_product
from tests.benchmarks.tools.processes import BIN, NO_DATASETTE, Requests, Run, run_datasette, run_process

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
        figures = _measure_csv(get_data_dir(rows), out, options.program, rows, rounds)
        if options.is_small:
            return figures
        figures += _measure_http(get_data_dir(rows), options.program, rows)
        return figures + _measure_xlsx(get_data_dir(rows), out, options.program, min(rows, SHEET_ROWS))


def make_export(
    data_dir: Path, program: tuple[str, ...], out: Path, format_: str, *more: str
) -> Callable[[], Run]:
    """Return a function that runs `switchroom export cdrs`."""
    command = [
        sys.executable,
        *program,
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


def _measure_csv(data_dir: Path, out: Path, program: tuple[str, ...], rows: int, rounds: int) -> list[Figure]:
    path, missing = str(data_dir / "mirror.db"), {}
    runs = {PRODUCT: make_export(data_dir, program, out, "csv")}
    if shell := shutil.which("sqlite3"):
        runs[SHELL] = lambda: run_process([shell, "-csv", "-header", "-readonly", path, SQL], out)
    else:
        missing[SHELL] = "sqlite3 is not installed. Run `apt install sqlite3`."
    if (BIN / "sqlite-utils").exists():
        runs[UTILS] = lambda: run_process([str(BIN / "sqlite-utils"), "query", path, SQL, "--csv"], out)
    else:
        missing[UTILS] = "sqlite-utils is not installed."
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
        make_figure("CSV of all CDRs, as a process", "s", found, missing=missing,
                    goals=(Goal(1.0, SHELL),), size=rows),
        make_figure("CSV of all CDRs, CPU of the process", "CPU seconds", work, missing=missing, size=rows),
        make_figure("CSV of all CDRs: peak memory", "MB", peaks, missing=missing,
                    goals=(Goal(100),), size=rows),
    ]  # fmt: skip


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _measure_http(data_dir: Path, program: tuple[str, ...], rows: int) -> list[Figure]:
    with ExitStack() as stack:
        product = run_product(data_dir, program)
        stack.callback(product.stop)
        requests = Requests(product.port or 0, {"X-Auth-Token": add_key(product)})
        found = [requests.measure_stream("/exports/cdrs.csv") for _ in range(ROUNDS)]
        datasette_port = stack.enter_context(run_datasette(data_dir / "mirror.db"))
        peers: dict[str, list[float]] = {}
        first_peers: dict[str, list[float]] = {}
        if datasette_port is not None:
            # One run: a million rows take Datasette minutes.
            first, total = Requests(datasette_port).measure_stream("/mirror/cdrs.csv?_stream=on&_size=max")
            peers = {DATASETTE: [total / 1000] * ROUNDS}
            first_peers = {DATASETTE: [first] * ROUNDS}
        missing = {} if datasette_port is not None else {DATASETTE: NO_DATASETTE}
        return [
            Figure("CSV over HTTP: first byte", "ms", [first for first, _ in found], first_peers, missing,
                   (Goal(200),), rows),
            Figure("CSV over HTTP: last byte", "s", [total / 1000 for _, total in found], peers, missing,
                   (), rows),
        ]  # fmt: skip


def _measure_xlsx(data_dir: Path, out: Path, program: tuple[str, ...], rows: int) -> list[Figure]:
    first = json.dumps([{"property": "id", "operator": "lt", "value": rows + 1}])
    export = make_export(data_dir, program, out, "xlsx", "--filter", first)
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
    minutes=4,
    rows=(1_000_000,),
    bounds=(Bound("CSV of all CDRs, as a process", Goal(3, UTILS), "slow_csv"),),
    remarks=(
        "Whole processes, their start included, with the same columns in the order of ids. Datasette's "
        "stream is measured once. Datasette and sqlite-utils write the columns as they are stored."
    ),
)
