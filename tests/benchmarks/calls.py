"""Benchmark of calls of single-leg CDRs, with and without `mirror/calls/fast_path`."""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from integration.core.phone_numbers import PhoneNumbers
from integration.mirror.calls import affected_legs
from integration.mirror.calls.store import BATCH_SIZE, CallStore
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction
from tests.benchmarks.exports import fill

ROUNDS = 5
"""Measurements of each variant. The variants alternate."""
DERIVED_TABLES = ("_legs", "_calls", "_call_ids", "_changes")


def main(rows: int) -> dict[str, float]:
    """Print the times. Returns the ratios by name."""
    with tempfile.TemporaryDirectory(prefix="switchroom-bench-") as folder:
        path = Path(folder) / "mirror.db"
        fill(path, rows)
        mirror_db = open_mirror(path)
        try:
            # One caller for all CDRs would make each leg a candidate for the call of every other.
            mirror_db.write(lambda tx: tx.execute("UPDATE cdrs SET src = '44' || (2000000000 + id)"))
            print(f"calls of {rows:,} single-leg CDRs, median of {ROUNDS} alternating runs, CPU seconds")
            return {
                "build without the fast path": _compare(mirror_db, "build", is_first=True),
                "rebuild without the fast path": _compare(mirror_db, "rebuild", is_first=False),
            }
        finally:
            mirror_db.close()


def _compare(mirror_db: Database, name: str, *, is_first: bool) -> float:
    """Return the ratio of the times without and with the fast path."""
    with_fast_path, without = list[float](), list[float]()
    for _ in range(ROUNDS):
        with_fast_path.append(_measure(mirror_db, is_first))
        fast_path_rule = affected_legs.is_single_record
        affected_legs.is_single_record = lambda _facts: False
        try:
            without.append(_measure(mirror_db, is_first))
        finally:
            affected_legs.is_single_record = fast_path_rule
    seconds, slow_seconds = statistics.median(with_fast_path), statistics.median(without)
    ratio = slow_seconds / seconds
    print(f"  {name:10} {seconds:7.2f}   without the fast path {slow_seconds:7.2f}   {ratio:.2f} times")
    return ratio


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
