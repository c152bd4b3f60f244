"""CSV of all CDRs beside `sqlite3 -csv` of the same columns (a bare csv.writer loop where there is no
sqlite3), XLSX beside XlsxWriter alone, in turns in the same minute; the first byte, and the peak memory of a
process that does it."""

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
MOST_SHEET_ROWS = 100_000
SAMPLE = Path(__file__).parents[1] / "fixtures" / "platform" / "response-cdrs-list-200.json"
COLUMNS = [field.name for field in get_resource("cdrs").fields if field.documented]
SQL = "SELECT " + ", ".join(f'"{name}"' for name in COLUMNS) + " FROM cdrs"


def fill(path: Path, rows: int) -> None:
    """A mirror of so many CDRs, all of them different."""
    # Not part of what `alone` measures.
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


def reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
    query.register(connection)
    connection.execute("BEGIN")
    return connection


def ours(path: Path, out: Path) -> float:
    """Seconds to the first chunk with records."""
    begun = time.perf_counter()
    first = 0.0
    with out.open("wb") as file, closing(reading(path)) as connection:
        stream = csv.stream(lambda: nullcontext(connection), select(get_resource("cdrs"), {}))
        file.write(next(stream))
        for chunk in stream:
            first = first or time.perf_counter() - begun
            file.write(chunk)
    return first


def shell(path: Path, out: Path) -> None:
    if shutil.which("sqlite3"):
        with out.open("wb") as file:
            subprocess.run(["sqlite3", "-csv", "-header", str(path), SQL], stdout=file, check=True)
    else:
        with out.open("w", newline="") as text, closing(sqlite3.connect(path)) as connection:
            writer = python_csv.writer(text)
            writer.writerow(COLUMNS)
            writer.writerows(connection.execute(SQL))


def our_workbook(path: Path, out: Path) -> None:
    with out.open("wb") as file, closing(reading(path)) as connection:
        for chunk in xlsx.stream(lambda: nullcontext(connection), select(get_resource("cdrs"), {})):
            file.write(chunk)


def bare_workbook(path: Path, out: Path) -> None:
    """XlsxWriter alone: text as text, numbers as numbers, nothing else."""
    book = xlsxwriter.Workbook(str(out), {"constant_memory": True})
    page = book.add_worksheet()
    for place, name in enumerate(COLUMNS):
        page.write_string(0, place, name)
    with closing(sqlite3.connect(path)) as connection:
        for number, row in enumerate(connection.execute(SQL), 1):
            for place, value in enumerate(row):
                if isinstance(value, str):
                    page.write_string(number, place, value)
                elif value is not None:
                    page.write_number(number, place, value)
    book.close()


def spent(work: Callable[[Path, Path], object], path: Path, out: Path) -> tuple[float, float]:
    """Seconds on the clock and of the processor, this process's and of those it waits for. On a machine that
    does other things as well only the processor's tell how two ways compare."""
    clock, processor = time.perf_counter(), sum(os.times()[:4])
    work(path, out)
    return time.perf_counter() - clock, sum(os.times()[:4]) - processor


def peak(work: str, path: Path, out: Path) -> float:
    """Megabytes that a process needs which does nothing else."""
    code = "import sys; from tests.benchmarks.exports import alone; alone(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, work, str(path), str(out)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def alone(work: str, path: str, out: str) -> None:
    {"csv": ours, "xlsx": our_workbook}[work](Path(path), Path(out))
    # getrusage would tell the peak of the process that started this one, were it higher.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM:")))


def main(rows: int) -> dict[str, float]:
    """Prints the tables; returns the ratios by name."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path, tenth, out = (Path(folder) / name for name in ("mirror.db", "tenth.db", "out"))
        fill(path, rows)
        fill(tenth, rows // 10)
        ratios = {**_csv(path, tenth, out, rows)}
        few = path if rows <= MOST_SHEET_ROWS else Path(folder) / "few.db"
        if few is not path:
            fill(few, MOST_SHEET_ROWS)
        return ratios | _xlsx(few, tenth, out, min(rows, MOST_SHEET_ROWS))


def _csv(path: Path, tenth: Path, out: Path, rows: int) -> dict[str, float]:
    peer = "sqlite3 -csv" if shutil.which("sqlite3") else "a bare csv.writer loop"
    print(f"CSV of {rows} CDRs, {len(COLUMNS)} columns, best of {ROUNDS} in turns")
    ratios, all_ = _compared(peer, shell, ours, path, out, ROUNDS)
    first = min(ours(path, out) for _ in range(2))
    small, memory = peak("csv", tenth, out), peak("csv", path, out)
    return _told({
        **ratios,
        "first records, ms": first * 1000,
        "first records, part of the whole": first / all_,
        "peak, MB": memory,
        "peak, times that of a tenth of the rows": memory / small,
    })  # fmt: skip


def _xlsx(path: Path, tenth: Path, out: Path, rows: int) -> dict[str, float]:
    print(f"XLSX of {rows} CDRs, {len(COLUMNS)} columns, best of {SHEET_ROUNDS} in turns")
    ratios, _ = _compared("XlsxWriter alone", bare_workbook, our_workbook, path, out, SHEET_ROUNDS)
    small, memory = peak("xlsx", tenth, out), peak("xlsx", path, out)
    return _told({**ratios, "XLSX peak, MB": memory, "XLSX peak, times that of fewer rows": memory / small})


def _compared(
    peer: str,
    theirs: Callable[[Path, Path], object],
    mine: Callable[[Path, Path], object],
    path: Path,
    out: Path,
    rounds: int,
) -> tuple[dict[str, float], float]:
    """The ratios, and our seconds on the clock."""
    pairs = [(*spent(theirs, path, out), *spent(mine, path, out)) for _ in range(rounds)]
    clock, processor, our_clock, our_processor = (min(column) for column in zip(*pairs, strict=True))
    print(f"  {peer:24} {clock:7.2f} s, of the processor {processor:7.2f} s")
    print(f"  {'Switchroom':24} {our_clock:7.2f} s, of the processor {our_processor:7.2f} s")
    ratios = {
        f"times {peer}": our_clock / clock,
        f"times {peer}, of the processor": our_processor / processor,
    }
    return ratios, our_clock


def _told(ratios: dict[str, float]) -> dict[str, float]:
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio:.2f}", flush=True)
    return ratios
