"""Benchmark of a full sync, compared with a minimal loop and dlt.

The platform is tests/trials/tools/peer.py, a process that prepares the next page while the last one is
stored, so that no contender waits for it. Memory and CPU time are those of the contender's process.
The product's full sync includes its checks and the calls of the first page; the other calls are assembled
afterwards and measured separately. The minimal loop uses requests, orjson and executemany, with a table of
the same columns and indexes; the indexes are created before or after the rows. Time is measured from the
moment when a process can send its first request.
"""

from __future__ import annotations

import json
import os
import resource as usage
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import requests

from integration.catalogue import get_resource
from tests.support.harness import ROOT, Process

COLLECTION = "cdrs"
LIMIT = 5000
MIN_TIMES_LOOP, MIN_TIMES_DLT, MAX_MEGABYTES = 1.0, 3.5, 200.0
"""Required speed as a multiple of the minimal loop's and of dlt's, and memory limit."""


@dataclass(frozen=True)
class Result:
    """Measurements of one contender: elapsed seconds, CPU seconds, peak memory."""

    rows: int
    seconds: float
    cpu: float
    megabytes: float
    calls_cpu: float = 0.0
    """CPU seconds of the calls assembled after the full sync."""

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_per_100_000(self) -> float:
        return self.cpu / self.rows * 100_000


def main(rows: int, dlt: str | None) -> dict[str, float]:
    """Print the table.

    Returns the ratios of elapsed and CPU time by name.
    """
    peer = Process([sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(rows)])
    found: dict[str, Result] = {}
    try:
        url = f"http://127.0.0.1:{peer.line('port ', 60)}/v1.2"
        for name in CONTENDERS:
            found[name] = _run([sys.executable, "-m", "tests.benchmarks.full_sync", name], url, rows)
        if dlt is not None:
            found["dlt"] = _run([dlt, str(Path(__file__).with_name("full_sync_dlt.py"))], url, rows, "dlt.db")
    finally:
        peer.stop()
    print(f"full sync of {rows:,} CDRs, one contender after the other")
    print(f"  {'':32} {'rows/s':>9} {'CPU s per 100,000':>18} {'peak MB':>8}")
    for name, result in found.items():
        print(f"  {name:32} {result.per_second:9,.0f} {result.cpu_per_100_000:18.2f} {result.megabytes:8.0f}")
    product = found["Switchroom"]
    print(f"  {'its calls, assembled afterwards':32} {'':9} {product.calls_cpu / rows * 100_000:18.2f}")
    if dlt is None:
        print("  NOT COMPARED with dlt: --dlt PYTHON names a Python that has dlt[sqlalchemy]")
    ratios = {"peak, MB": product.megabytes}
    for name, result in found.items():
        if result is not product:
            ratios[f"times {name}"] = product.per_second / result.per_second
            ratios[f"times {name}, CPU"] = result.cpu_per_100_000 / product.cpu_per_100_000
    for name, ratio in ratios.items():
        print(f"  {ratio:6.2f} {name}{_describe_goal(name, ratio)}")
    return ratios


def _describe_goal(name: str, ratio: float) -> str:
    """Return a mark if the ratio misses its goal."""
    goals = {"peak, MB": ratio <= MAX_MEGABYTES, f"times {LOOP}": ratio >= MIN_TIMES_LOOP}
    goals["times dlt"] = ratio >= MIN_TIMES_DLT
    return "" if goals.get(name, True) else "  MISSED"


def _run(command: list[str], url: str, rows: int, file: str = "mirror.db") -> Result:
    """Run a contender in an empty folder; check that it stored `rows`."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        begun = time.perf_counter()
        before = usage.getrusage(usage.RUSAGE_CHILDREN)
        done = subprocess.run([*command, url, folder], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        seconds, after = time.perf_counter() - begun, usage.getrusage(usage.RUSAGE_CHILDREN)
        printed = json.loads(done.stdout) if done.stdout.strip().startswith(b"{") else {}
        with closing(sqlite3.connect(Path(folder) / file)) as connection:
            stored = connection.execute(f"SELECT count(DISTINCT id) FROM {COLLECTION}").fetchone()[0]
        assert stored == rows, f"{stored:,} of {rows:,} rows"
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # The script for dlt prints no figures: the start of its interpreter counts as well, which is little
    # compared with a million rows.
    return Result(
        rows,
        printed.get("seconds", seconds),
        printed.get("cpu", spent),
        printed.get("megabytes", after.ru_maxrss / 1024),
        printed.get("calls_cpu", 0.0),
    )


# --- the processes of contenders ---------------------------------------------------------------------------


Work = tuple[Callable[[], object], Callable[[], float]]
"""The measured function, and a function for the work afterwards, which returns its CPU seconds."""


def prepare_product(url: str, folder: Path) -> Work:
    """Build the product as `switchroom sync` does."""
    from integration import factory
    from integration.settings.model import load
    from integration.sync.plan import PLAN
    from integration.sync.reading import call_assembly
    from integration.sync.reading.full_sync import run_full_sync

    environment = {
        "SWITCHROOM_PLATFORM__BASE_URL": url,
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
    }
    product = factory.build(load(Path(os.devnull), environment))

    def assemble_calls() -> float:
        begun = time.process_time()
        call_assembly.assemble_pending(product.context)
        spent = time.process_time() - begun
        product.stop()
        return spent

    return lambda: run_full_sync(product.context, PLAN[COLLECTION]), assemble_calls


def prepare_loop(url: str, folder: Path, *, indexes_after: bool) -> Work:
    """Create the table of the minimal loop, with or without its indexes."""
    connection, indexes = _create_table(folder)
    if not indexes_after:
        _create_indexes(connection, indexes)
    fields = get_resource(COLLECTION).fields
    marks = ", ".join("?" * (len(fields) + 4))
    names = ", ".join(f'"{field.name}"' for field in fields)
    insert = f"INSERT INTO {COLLECTION} ({names}, _doc, _first_seen, _last_seen, _source) VALUES ({marks})"
    keys, session = [field.name for field in fields], requests.Session()

    def run() -> None:
        last = None
        while True:
            conditions = [] if last is None else [{"property": "id", "operator": "lt", "value": last}]
            parameters = {"filter": json.dumps(conditions), "sort": "id", "dir": "DESC", "limit": str(LIMIT)}
            response = session.get(f"{url}/{COLLECTION}", params=parameters, timeout=30)
            page = orjson.loads(response.content)
            now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
            connection.execute("BEGIN")
            connection.executemany(
                insert,
                (
                    (
                        *[_cell(record.get(key)) for key in keys],
                        orjson.dumps(record).decode(), now, now, "sync",
                    )
                    for record in page["data"]
                ),
            )  # fmt: skip
            connection.execute("COMMIT")
            if len(page["data"]) >= page["total"]:
                break
            last = page["data"][-1]["id"]
        if indexes_after:
            _create_indexes(connection, indexes)
        connection.close()

    return run, lambda: 0.0


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value


def _create_table(folder: Path) -> tuple[sqlite3.Connection, list[str]]:
    """Create an empty table like the mirror's.

    Returns the SQL of its indexes as well.
    """
    from integration.mirror.schema import open_mirror

    open_mirror(folder / "template.db").close()
    with closing(sqlite3.connect(folder / "template.db")) as template:
        found = template.execute(
            "SELECT type, sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL", (COLLECTION,)
        ).fetchall()
    connection = sqlite3.connect(folder / "mirror.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(next(sql for kind, sql in found if kind == "table"))
    return connection, [sql for kind, sql in found if kind == "index"]


def _create_indexes(connection: sqlite3.Connection, indexes: list[str]) -> None:
    for sql in indexes:
        connection.execute(sql)


LOOP = "a minimal loop"
CONTENDERS: dict[str, Callable[[str, Path], Work]] = {
    "Switchroom": prepare_product,
    LOOP: lambda url, folder: prepare_loop(url, folder, indexes_after=False),
    "a minimal loop, indexes after": lambda url, folder: prepare_loop(url, folder, indexes_after=True),
}


def _run_contender(name: str, url: str, folder: str) -> None:
    """Run a contender in this process, and print its measurements as JSON."""
    run, finish = CONTENDERS[name](url, Path(folder))
    begun, spent = time.perf_counter(), time.process_time()
    run()
    figures = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - spent}
    figures["calls_cpu"] = finish()
    # getrusage returns the peak of the parent process if that is higher.
    lines = Path("/proc/self/status").read_text().splitlines()
    figures["megabytes"] = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps(figures))


if __name__ == "__main__":
    _run_contender(*sys.argv[1:])
