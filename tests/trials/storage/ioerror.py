"""Promise P18: the disk fails to sync what was written.

Beneath the product stands a disk that fails on demand (`shim.py`). Webhooks pour in while the syncs of each
database fail for a while, again and again. What was not synced is never acknowledged; the worker whose sync
failed never syncs that database again, it ends and a fresh one takes its place; that one brings what it
found in the log, which may be in memory only, to the disk before it answers anything. Once the disk is well
again all goes on.

    python -m tests.trials ioerror [--rounds N]         20 failures of each database
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.harness import Product, wait_for
from tests.trials.sync.platform import Report, until
from tests.trials.tools import disk_shim as shim
from tests.trials.tools.disk_shim import Shim
from tests.trials.tools.traffic import DATABASES, PLANTED, Senders, damaged, lost
from tests.trials.webhooks.crash import unapplied

READY_SECONDS = 60.0
"""Longest recovery; a worker that met the failing disk when it started rests up to 10 s before the next."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials ioerror")
    parser.add_argument("--rounds", type=int, default=20, help="failures of each database")
    parser.add_argument("--seed-bug", action="store_true", help="go on with a handle whose sync failed")
    options = parser.parse_args(arguments)
    report = Report("ioerror")
    with tempfile.TemporaryDirectory(prefix="switchroom-ioerror-") as folder:
        told = _try(Path(folder).resolve(), options, report)
    found = any("never synced again" in promise for promise in report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


def _try(folder: Path, options: argparse.Namespace, report: Report) -> str:
    data_dir = folder / "data"
    disk = shim.make(folder, data_dir)
    program = (*PLANTED, "tenacious") if options.seed_bug else ("app.py",)
    product = Product(data_dir, program=program, environment=disk.environment)
    senders = Senders(product.port, product.webhook_path, rest=0.01)
    failures, recoveries = 0, []
    try:
        for number in range(options.rounds):
            for name in DATABASES if not options.seed_bug else ("inbox.db",):
                failed = _fail(disk, name, product, senders, 4 if options.seed_bug else 120, report)
                failures += failed
                seconds = _recover(senders)
                report.check(seconds < READY_SECONDS, f"round {number}, {name}: webhooks are stored again")
                recoveries.append(seconds)
        senders.stop()
        _judge(data_dir, disk, senders, report)
    finally:
        senders.stop()
        product.stop(30)
    report.check(not (found := damaged(data_dir)), f"the databases are whole, not {found}")
    report.check(failures > 0, "a sync failed at all")
    workers = len({pid for pid, succeeded, _ in disk.syncs() if not succeeded})
    return (
        f"{failures} syncs failed, {workers} workers ended by it; {dict(senders.statuses)} to senders"
        f" (0: broken off); back after {max(recoveries):.1f} s at most"
    )


def _recover(senders: Senders) -> float:
    """The seconds until webhooks are stored again."""
    began = time.monotonic()
    until(lambda: senders.since(began)[200] > 50, READY_SECONDS)
    return time.monotonic() - began


def _fail(disk: Shim, name: str, product: Product, senders: Senders, patience: float, report: Report) -> int:
    """Let the syncs of one database fail until a worker has ended by it. Returns how many failed."""
    before, worker = len(disk.syncs()), product.worker
    disk.fail(f"sync {name}")
    began = time.monotonic()

    def failed() -> list[int]:
        return [pid for pid, succeeded, _ in disk.syncs()[before:] if not succeeded]

    wait_for(lambda: failed() or _provoke(product, name), f"a failing sync of {name}", 240)
    ended = until(lambda: product.worker not in (None, worker), patience)
    report.check(ended, f"{name}: the worker whose sync failed ends, and another takes its place")
    if name == "inbox.db":
        # The fresh worker meets the same disk: still nothing may be acknowledged.
        settled = time.monotonic()
        until(lambda: len(set(failed())) > 1, min(patience, 10))
        report.check(senders.since(settled)[200] == 0, "nothing is acknowledged while the disk fails")
    report.check(
        set(senders.since(began)) <= {0, 200, 503}, f"{name}: 200, 503 or nothing, not {senders.since(began)}"
    )
    disk.fail()
    return len(failed())


def _provoke(product: Product, name: str) -> bool:
    """Have something written where nothing is by itself: house.db by a wrong login of the facade."""
    if name == "house.db":
        product.client.ask("GET", "/v1.2/ping", headers={"X-Auth-Token": "f" * 40})
    return False


def _judge(data_dir: Path, disk: Shim, senders: Senders, report: Report) -> None:
    applied = until(lambda: not unapplied(data_dir))
    report.check(applied, "every stored event is applied in the end")
    missing = lost(data_dir, senders.acknowledged)
    report.check(not missing, f"no acknowledged event is lost; {len(missing)} are, such as {missing[:1]}")
    again, unsure = _careless(disk.syncs())
    report.check(
        not again, f"a database whose sync failed is never synced again by that process: {again[:3]}"
    )
    report.check(
        not unsure, f"a fresh worker checkpoints what a failed one left before it adds to it: {unsure[:3]}"
    )


def _careless(syncs: Sequence[tuple[int, bool, Path]]) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Processes that synced a database again after that had failed; and such as went on with a log that an
    earlier process could not sync, instead of bringing it into the database first."""
    broken: dict[str, int] = {}
    first: dict[tuple[int, str], list[str]] = {}
    again, unsure = [], []
    for pid, succeeded, path in syncs:
        database = path.name.removesuffix("-wal")
        if database not in DATABASES:
            continue
        if broken.get(database) == pid:
            again.append((pid, database))
        elif not succeeded:
            broken[database] = pid
        elif database in broken:
            own = first.setdefault((pid, database), [])
            own.append(path.name)
            if len(own) == 2 and database not in own:
                unsure.append((pid, database))
            if len(own) == 2:
                del broken[database]
    return again, unsure
