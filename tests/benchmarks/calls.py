"""Benchmark of calls of single-leg CDRs, with and without `mirror/calls/plain/legs`."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from integration.catalogue import get_resource
from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.calls import affected_legs
from integration.mirror.calls.store import BATCH_SIZE, CallStore
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.benchmarks.tools.benchmark import PRODUCT, Benchmark, Figure, Options, alternate, make_figure

ROUNDS = 5
"""Measurements of each variant. The variants alternate."""
WITHOUT = "without the fast path"
SAMPLE = Path(__file__).parents[1] / "fixtures" / "platform" / "response-cdrs-list-200.json"
DERIVED_TABLES = ("_legs", "_calls", "_call_ids", "_changes")


def _fill(path: Path, rows: int) -> None:
    """Create a mirror with `rows` different CDRs."""
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


def measure(options: Options) -> list[Figure]:
    rows = min((*options.rows, *BENCHMARK.rows))
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path = Path(folder) / "mirror.db"
        _fill(path, rows)
        mirror_db = open_mirror(path)
        try:
            # One caller for all CDRs would make each leg a candidate for the call of every other.
            mirror_db.write(lambda tx: tx.execute("UPDATE cdrs SET src = '44' || (2000000000 + id)"))
            return [
                _compare(mirror_db, "build of calls of single-leg CDRs", rows, is_first=True),
                _compare(mirror_db, "rebuild of calls of single-leg CDRs", rows, is_first=False),
            ]
        finally:
            mirror_db.close()


def _compare(mirror_db: Database, name: str, rows: int, *, is_first: bool) -> Figure:
    def measure_without() -> float:
        fast_path_rule = affected_legs.is_single_record
        affected_legs.is_single_record = lambda _facts: False
        try:
            return _measure(mirror_db, is_first)
        finally:
            affected_legs.is_single_record = fast_path_rule

    found = alternate(ROUNDS, {PRODUCT: lambda: _measure(mirror_db, is_first), WITHOUT: measure_without})
    return make_figure(name, "CPU seconds", found, size=rows)


def _measure(mirror_db: Database, is_first: bool) -> float:
    """Compute the calls of all CDRs. Returns CPU seconds."""
    with mirror_db.read() as connection:
        leg_ids = [row[0] for row in connection.execute("SELECT live_id FROM cdrs ORDER BY id")]
    if is_first:
        mirror_db.write(_delete_calls)
    begun = time.process_time()
    call_store = CallStore(phone_numbers=PhoneNumbers("GB"))
    for start in range(0, len(leg_ids), BATCH_SIZE):
        mirror_db.write(partial(call_store.refresh, leg_ids=leg_ids[start : start + BATCH_SIZE]))
    return time.process_time() - begun


def _delete_calls(tx: Transaction) -> None:
    for table in DERIVED_TABLES:
        tx.execute(f"DELETE FROM {table}")


BENCHMARK = Benchmark(
    title="Calls of single-leg CDRs with and without the fast path",
    measure=measure,
    minutes=1,
    rows=(20_000,),
    in_table=False,
    remarks="CPU time in one process. It decides whether `mirror/calls/plain` stays.",
)
