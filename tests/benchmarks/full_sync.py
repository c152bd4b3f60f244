"""A complete walk of all CDRs of a platform that is never the bottleneck, beside a bare loop and dlt.

The platform is tests/trials/tools/peer.py, in a process of its own, which makes the next page ready while the
last one is stored. Each contender is a process as well: what it needs of memory and of the processor is its
own. Ours is the product's own walk, checks and bookkeeping included, and the calls of its first page, which
are put together at once; those of the others are put together after it, which is told apart. The bare loop is
requests, orjson and executemany into a table with the same columns and indexes, which are there before the
rows, or are made after them. The clock starts when a process has all it needs to send its first request.
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
AGAINST_BARE, AGAINST_DLT, MOST_MEGABYTES = 1.0, 3.5, 200.0


@dataclass(frozen=True)
class Result:
    rows: int
    seconds: float
    processor: float
    megabytes: float
    deriving: float = 0.0
    """Seconds of the processor that the calls took after the walk."""

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def per_hundred_thousand(self) -> float:
        return self.processor / self.rows * 100_000


def main(rows: int, dlt: str | None) -> dict[str, float]:
    """Prints the table; returns the ratios by name, by seconds and by those of the processor."""
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
    print(f"a complete walk of {rows:,} CDRs, one after the other")
    print(f"  {'':32} {'rows/s':>9} {'processor s per 100,000':>24} {'most MB':>8}")
    for name, result in found.items():
        print(
            f"  {name:32} {result.per_second:9,.0f} {result.per_hundred_thousand:24.2f}"
            f" {result.megabytes:8.0f}"
        )
    ours = found["Switchroom"]
    print(f"  {'its calls, put together after':32} {'':9} {ours.deriving / rows * 100_000:24.2f}")
    if dlt is None:
        print("  NOT COMPARED with dlt: --dlt PYTHON names a Python that has dlt[sqlalchemy]")
    ratios = {"peak, MB": ours.megabytes}
    for name, result in found.items():
        if result is not ours:
            ratios[f"times {name}"] = ours.per_second / result.per_second
            ratios[f"times {name}, by processor"] = result.per_hundred_thousand / ours.per_hundred_thousand
    for name, ratio in ratios.items():
        print(f"  {ratio:6.2f} {name}{_judged(name, ratio)}")
    return ratios


def _judged(name: str, ratio: float) -> str:
    goals = {"peak, MB": ratio <= MOST_MEGABYTES, f"times {BARE}": ratio >= AGAINST_BARE}
    goals["times dlt"] = ratio >= AGAINST_DLT
    return "" if goals.get(name, True) else "  MISSED"


def _run(command: list[str], url: str, rows: int, file: str = "mirror.db") -> Result:
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        begun = time.perf_counter()
        before = usage.getrusage(usage.RUSAGE_CHILDREN)
        done = subprocess.run([*command, url, folder], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        seconds, after = time.perf_counter() - begun, usage.getrusage(usage.RUSAGE_CHILDREN)
        told = json.loads(done.stdout) if done.stdout.strip().startswith(b"{") else {}
        with closing(sqlite3.connect(Path(folder) / file)) as connection:
            stored = connection.execute(f"SELECT count(DISTINCT id) FROM {COLLECTION}").fetchone()[0]
        assert stored == rows, f"{stored:,} of {rows:,} rows"
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # dlt does not tell: the start of its interpreter is counted, too, which a million rows do not feel.
    return Result(
        rows,
        told.get("seconds", seconds),
        told.get("processor", spent),
        told.get("megabytes", after.ru_maxrss / 1024),
        told.get("deriving", 0.0),
    )


# --- in a process of its own -------------------------------------------------------------------------------


Work = tuple[Callable[[], object], Callable[[], float]]
"""What is measured, and what is left to do after it, whose seconds of the processor are told apart."""


def ours(url: str, folder: Path) -> Work:
    """The product as `switchroom sync` opens it."""
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

    def rest() -> float:
        begun = time.process_time()
        call_assembly.assemble_pending(product.context)
        spent = time.process_time() - begun
        product.stop()
        return spent

    return lambda: run_full_sync(product.context, PLAN[COLLECTION]), rest


def bare(url: str, folder: Path, *, after: bool) -> Work:
    connection, indexes = _table(folder)
    if not after:
        _make(connection, indexes)
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
            answer = session.get(f"{url}/{COLLECTION}", params=parameters, timeout=30)
            page = orjson.loads(answer.content)
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
        if after:
            _make(connection, indexes)
        connection.close()

    return run, lambda: 0.0


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value


def _table(folder: Path) -> tuple[sqlite3.Connection, list[str]]:
    """An empty table like the mirror's, and the SQL of its indexes."""
    from integration.mirror.schema import open_mirror

    open_mirror(folder / "like.db").close()
    with closing(sqlite3.connect(folder / "like.db")) as like:
        found = like.execute(
            "SELECT type, sql FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL", (COLLECTION,)
        ).fetchall()
    connection = sqlite3.connect(folder / "mirror.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(next(sql for kind, sql in found if kind == "table"))
    return connection, [sql for kind, sql in found if kind == "index"]


def _make(connection: sqlite3.Connection, indexes: list[str]) -> None:
    for sql in indexes:
        connection.execute(sql)


BARE = "a bare loop"
CONTENDERS: dict[str, Callable[[str, Path], Work]] = {
    "Switchroom": ours,
    BARE: lambda url, folder: bare(url, folder, after=False),
    "a bare loop, indexes after": lambda url, folder: bare(url, folder, after=True),
}


def _alone(name: str, url: str, folder: str) -> None:
    run, rest = CONTENDERS[name](url, Path(folder))
    begun, spent = time.perf_counter(), time.process_time()
    run()
    told = {"seconds": time.perf_counter() - begun, "processor": time.process_time() - spent}
    told["deriving"] = rest()
    # getrusage would tell the peak of the process that started this one, were it higher.
    lines = Path("/proc/self/status").read_text().splitlines()
    told["megabytes"] = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
    print(json.dumps(told))


if __name__ == "__main__":
    _alone(*sys.argv[1:])
