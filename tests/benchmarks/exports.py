"""CSV of all CDRs beside `sqlite3 -csv` of the same columns (a bare csv.writer loop where there is no
sqlite3), XLSX beside XlsxWriter alone, in turns in the same minute; the first byte, and the peak memory of a
process that does it."""

from __future__ import annotations

import csv as python_csv
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import xlsxwriter

from integration.catalogue import resource
from integration.exports import csv, xlsx
from integration.exports.selection import select
from integration.mirror import query

ROUNDS = 5
SHEET_ROUNDS = 2
MOST_SHEET_ROWS = 100_000
SAMPLE = Path(__file__).parents[1] / "fixtures" / "platform" / "response-cdrs-list-200.json"
COLUMNS = [field.name for field in resource("cdrs").fields if field.documented]
SQL = "SELECT " + ", ".join(f'"{name}"' for name in COLUMNS) + " FROM cdrs"


def fill(path: Path, rows: int) -> None:
    """A mirror of so many CDRs, all of them different."""
    # Not part of what `alone` measures.
    from integration.mirror.schema import open_mirror

    open_mirror(path).close()
    names = [field.name for field in resource("cdrs").fields]
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


def ours(path: Path, out: Path) -> tuple[float, float]:
    """Seconds to the first chunk with records, and to the last."""
    begun = time.perf_counter()
    first = 0.0
    with out.open("wb") as file, closing(reading(path)) as connection:
        stream = csv.stream(lambda: nullcontext(connection), select(resource("cdrs"), {}))
        file.write(next(stream))
        for chunk in stream:
            first = first or time.perf_counter() - begun
            file.write(chunk)
    return first, time.perf_counter() - begun


def shell(path: Path, out: Path) -> float:
    begun = time.perf_counter()
    if shutil.which("sqlite3"):
        with out.open("wb") as file:
            subprocess.run(["sqlite3", "-csv", "-header", str(path), SQL], stdout=file, check=True)
    else:
        with out.open("w", newline="") as text, closing(sqlite3.connect(path)) as connection:
            writer = python_csv.writer(text)
            writer.writerow(COLUMNS)
            writer.writerows(connection.execute(SQL))
    return time.perf_counter() - begun


def our_workbook(path: Path, out: Path) -> float:
    begun = time.perf_counter()
    with out.open("wb") as file, closing(reading(path)) as connection:
        for chunk in xlsx.stream(lambda: nullcontext(connection), select(resource("cdrs"), {})):
            file.write(chunk)
    return time.perf_counter() - begun


def bare_workbook(path: Path, out: Path) -> float:
    """XlsxWriter alone: text as text, numbers as numbers, nothing else."""
    begun = time.perf_counter()
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
    return time.perf_counter() - begun


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
    pairs = []
    for _ in range(ROUNDS):
        pairs.append((shell(path, out), *ours(path, out)))
    theirs, first, all_ = (min(column) for column in zip(*pairs, strict=True))
    small, memory = peak("csv", tenth, out), peak("csv", path, out)
    print(f"CSV of {rows} CDRs, {len(COLUMNS)} columns, best of {ROUNDS} in turns")
    print(f"  {peer:24} {theirs:7.2f} s")
    print(f"  {'Switchroom':24} {all_:7.2f} s  first records {first * 1000:.0f} ms  peak {memory:.0f} MB")
    return _told({
        f"times {peer}": all_ / theirs,
        "first records, ms": first * 1000,
        "first records, part of the whole": first / all_,
        "peak, MB": memory,
        "peak, times that of a tenth of the rows": memory / small,
    })  # fmt: skip


def _xlsx(path: Path, tenth: Path, out: Path, rows: int) -> dict[str, float]:
    pairs = [(bare_workbook(path, out), our_workbook(path, out)) for _ in range(SHEET_ROUNDS)]
    theirs, all_ = (min(column) for column in zip(*pairs, strict=True))
    small, memory = peak("xlsx", tenth, out), peak("xlsx", path, out)
    print(f"XLSX of {rows} CDRs, {len(COLUMNS)} columns, best of {SHEET_ROUNDS} in turns")
    print(f"  {'XlsxWriter alone':24} {theirs:7.2f} s")
    print(f"  {'Switchroom':24} {all_:7.2f} s  peak {memory:.0f} MB")
    return _told({
        "times XlsxWriter alone": all_ / theirs,
        "XLSX peak, MB": memory,
        "XLSX peak, times that of fewer rows": memory / small,
    })  # fmt: skip


def _told(ratios: dict[str, float]) -> dict[str, float]:
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio:.2f}")
    return ratios
