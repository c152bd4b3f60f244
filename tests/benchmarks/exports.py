"""Benchmark of exports of CDRs.

CSV is compared with `sqlite3 -csv` of the same columns, or with a loop over csv.writer if sqlite3 is not
installed; XLSX with XlsxWriter. Measured are time, time to the first records, and the peak memory of a
process that only exports.
"""

from __future__ import annotations

import csv as python_csv
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import xlsxwriter

from integration.catalogue import get_resource
from integration.exports.formats import csv, xlsx
from integration.exports.selection import select
from integration.mirror.query import query

ROUNDS = 5
SHEET_ROUNDS = 2
"""Measurements of each program for CSV and XLSX. The programs alternate."""
MAX_SHEET_ROWS = 100_000
SAMPLE = Path(__file__).parents[1] / "fixtures" / "platform" / "response-cdrs-list-200.json"
COLUMNS = [field.name for field in get_resource("cdrs").fields if field.documented]
SQL = "SELECT " + ", ".join(f'"{name}"' for name in COLUMNS) + " FROM cdrs"


def fill(path: Path, rows: int) -> None:
    """Create a mirror with `rows` different CDRs."""
    # Imported here, so that it does not add to the memory that `measure_in_process` measures.
    from integration.mirror.schema import open_mirror

    open_mirror(path).close()
    names = [field.name for field in get_resource("cdrs").fields]
    columns = ", ".join(f'"{name}"' for name in [*names, "_doc", "_first_seen", "_last_seen", "_source"])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            f"INSERT INTO cdrs ({columns}) VALUES ({', '.join('?' * (len(names) + 4))})",
            _records(names, rows),
        )
        connection.execute("COMMIT")


def _records(names: list[str], rows: int) -> Iterator[tuple[Any, ...]]:
    chance, at = random.Random(1), datetime(2024, 1, 1)
    first = json.loads(SAMPLE.read_text())["data"][0]
    for number in range(rows):
        at += timedelta(seconds=chance.randrange(1, 90))
        record = {
            **first,
            "id": first["id"] + number,
            "live_id": first["live_id"] + number,
            "calldate": f"{at:%Y-%m-%d %H:%M:%S}",
            "duration": chance.randrange(600),
            "dst": f"447700900{chance.randrange(1000):03}",
        }
        values = (record.get(name) for name in names)
        cells = [json.dumps(value) if isinstance(value, list | dict) else value for value in values]
        yield (*cells, json.dumps(record, separators=(",", ":")), "", "", "sync")


def open_mirror_for_reading(path: Path) -> sqlite3.Connection:
    """Open a mirror with a read transaction."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    query.register(connection)
    connection.execute("BEGIN")
    return connection


def export_csv(path: Path, out: Path) -> float:
    """Export CDRs as CSV. Returns seconds to the first chunk with records."""
    begun = time.perf_counter()
    first = 0.0
    with out.open("wb") as file, closing(open_mirror_for_reading(path)) as connection:
        stream = csv.stream(lambda: nullcontext(connection), select(get_resource("cdrs"), {}))
        file.write(next(stream))
        for chunk in stream:
            first = first or time.perf_counter() - begun
            file.write(chunk)
    return first


def export_csv_by_peer(path: Path, out: Path) -> None:
    """Export CDRs by sqlite3, or by csv.writer if sqlite3 is not installed."""
    if shutil.which("sqlite3"):
        with out.open("wb") as file:
            subprocess.run(["sqlite3", "-csv", "-header", str(path), SQL], stdout=file, check=True)
    else:
        with out.open("w", newline="") as text, closing(sqlite3.connect(path)) as connection:
            writer = python_csv.writer(text)
            writer.writerow(COLUMNS)
            writer.writerows(connection.execute(SQL))


def export_xlsx(path: Path, out: Path) -> None:
    """Export CDRs as XLSX."""
    with out.open("wb") as file, closing(open_mirror_for_reading(path)) as connection:
        for chunk in xlsx.stream(lambda: nullcontext(connection), select(get_resource("cdrs"), {})):
            file.write(chunk)


def export_xlsx_by_peer(path: Path, out: Path) -> None:
    """Write CDRs by XlsxWriter without formats: texts as texts, numbers as numbers."""
    book = xlsxwriter.Workbook(str(out), {"constant_memory": True})
    sheet = book.add_worksheet()
    for column, name in enumerate(COLUMNS):
        sheet.write_string(0, column, name)
    with closing(sqlite3.connect(path)) as connection:
        for number, row in enumerate(connection.execute(SQL), 1):
            for column, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(number, column, value)
                elif value is not None:
                    sheet.write_number(number, column, value)
    book.close()


def measure_time(work: Callable[[Path, Path], object], path: Path, out: Path) -> tuple[float, float]:
    """Return elapsed seconds and CPU seconds of `work`.

    CPU time includes child processes. On a busy machine only CPU times can be compared.
    """
    begun, cpu = time.perf_counter(), sum(os.times()[:4])
    work(path, out)
    return time.perf_counter() - begun, sum(os.times()[:4]) - cpu


def measure_peak(work: str, path: Path, out: Path) -> float:
    """Return the MB of peak memory of a process that runs `work`."""
    code = "import sys; from tests.benchmarks.exports import measure_in_process as run; run(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, work, str(path), str(out)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def measure_in_process(work: str, path: str, out: str) -> None:
    """Export CDRs, and print the peak memory of this process in MB."""
    {"csv": export_csv, "xlsx": export_xlsx}[work](Path(path), Path(out))
    # getrusage returns the peak of the parent process if that is higher.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:")))


def main(rows: int) -> dict[str, float]:
    """Print the tables. Returns the ratios by name."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path, tenth, out = (Path(folder) / name for name in ("mirror.db", "tenth.db", "out"))
        fill(path, rows)
        fill(tenth, rows // 10)
        ratios = {**_csv(path, tenth, out, rows)}
        few = path if rows <= MAX_SHEET_ROWS else Path(folder) / "few.db"
        if few is not path:
            fill(few, MAX_SHEET_ROWS)
        return ratios | _xlsx(few, tenth, out, min(rows, MAX_SHEET_ROWS))


def _csv(path: Path, tenth: Path, out: Path, rows: int) -> dict[str, float]:
    peer = "sqlite3 -csv" if shutil.which("sqlite3") else "csv.writer"
    print(f"CSV of {rows} CDRs, {len(COLUMNS)} columns, best of {ROUNDS} alternating runs")
    ratios, seconds = _compare(peer, export_csv_by_peer, export_csv, path, out, ROUNDS)
    first = min(export_csv(path, out) for _ in range(2))
    small, memory = measure_peak("csv", tenth, out), measure_peak("csv", path, out)
    return _print_ratios({
        **ratios,
        "first records, ms": first * 1000,
        "first records, share of the total time": first / seconds,
        "peak, MB": memory,
        "peak, times that of a tenth of the rows": memory / small,
    })  # fmt: skip


def _xlsx(path: Path, tenth: Path, out: Path, rows: int) -> dict[str, float]:
    print(f"XLSX of {rows} CDRs, {len(COLUMNS)} columns, best of {SHEET_ROUNDS} alternating runs")
    ratios, _ = _compare("XlsxWriter", export_xlsx_by_peer, export_xlsx, path, out, SHEET_ROUNDS)
    small, memory = measure_peak("xlsx", tenth, out), measure_peak("xlsx", path, out)
    return _print_ratios(
        {**ratios, "XLSX peak, MB": memory, "XLSX peak, times that of fewer rows": memory / small}
    )


def _compare(
    peer: str,
    export_by_peer: Callable[[Path, Path], object],
    export: Callable[[Path, Path], object],
    path: Path,
    out: Path,
    rounds: int,
) -> tuple[dict[str, float], float]:
    """Return the ratios to the peer, and the product's elapsed seconds."""
    pairs = [
        (*measure_time(export_by_peer, path, out), *measure_time(export, path, out)) for _ in range(rounds)
    ]
    peer_seconds, peer_cpu, seconds, cpu = (min(column) for column in zip(*pairs, strict=True))
    print(f"  {peer:24} {peer_seconds:7.2f} s, CPU {peer_cpu:7.2f} s")
    print(f"  {'Switchroom':24} {seconds:7.2f} s, CPU {cpu:7.2f} s")
    ratios = {f"times {peer}": seconds / peer_seconds, f"times {peer}, CPU": cpu / peer_cpu}
    return ratios, seconds


def _print_ratios(ratios: dict[str, float]) -> dict[str, float]:
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio:.2f}", flush=True)
    return ratios
