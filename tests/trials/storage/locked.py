"""Promise P16: somebody else holds the write lock of a database, or reads in it for long.

Webhooks pour in, pages are open, a sync writes. Then an outsider holds the lock of each database: every
webhook is answered 200 or 503, nothing that was acknowledged is lost, pages and facade are read as ever.
Then an outsider's reader keeps the write-ahead logs from being emptied while they grow beyond their limit:
once it is gone they are within it.

    python -m tests.trials locked               1, 10 and 60 s for each database, a reader for 10 min
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report, friday_evening, until
from tests.trials.tools.traffic import (
    DATABASES,
    PLANTED,
    Readers,
    Senders,
    ask,
    damaged,
    furnish,
    look,
    lost,
    pages,
)
from tests.trials.webhooks.crash import unapplied

ANSWER_SECONDS = 5.0
PADDING = 200_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials locked")
    parser.add_argument("--short", action="store_true", help="all locks at once, for seconds")
    parser.add_argument("--seed-bug", action="store_true", help="acknowledge what could not be stored")
    options = parser.parse_args(arguments)
    report = Report("locked")
    simulator = Simulator("--seed", "5", "--no-traffic", "--cdrs", "150", "--start", str(friday_evening()))
    try:
        with tempfile.TemporaryDirectory(prefix="switchroom-locked-") as folder:
            told = _try(Path(folder) / "data", simulator, options, report)
    finally:
        simulator.stop()
    found = any("lost" in promise for promise in report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


def _try(folder: Path, simulator: Simulator, options: argparse.Namespace, report: Report) -> str:
    visitor = furnish(folder)
    product = Product(
        folder,
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        program=(*PLANTED, "hopeful") if options.seed_bug else ("app.py",),
        sync__recent_interval="1",
        sync__max_requests_per_minute="6000",
    )
    try:
        walked = "SELECT count(*) FROM _walks WHERE collection = 'cdrs' AND complete_at > ''"
        wait_for(lambda: ask(folder / "mirror.db", walked), "a first walk", 240)
        senders = Senders(product.port, product.webhook_path)
        readers = Readers(product.port, pages(visitor))
        told = []
        for names, seconds in _locks(options):
            patience = 0.0 if options.seed_bug else 60.0
            told.append(_hold(folder, names, seconds, patience, senders, readers, report))
        if not options.seed_bug:
            told.append(_read_long(folder, product, options, report))
        readers.stop()
        senders.stop()
        _judge(folder, senders, readers, options, report)
    finally:
        product.stop(30)
    if not options.seed_bug:
        report.check(not (found := damaged(folder)), f"the databases are whole, not {found}")
    return "; ".join(told)


def _locks(options: argparse.Namespace) -> list[tuple[Sequence[str], float]]:
    if options.short or options.seed_bug:
        return [(DATABASES, 6.0)]
    return [((name,), seconds) for name in DATABASES for seconds in (1.0, 10.0, 60.0)]


def _hold(
    folder: Path,
    names: Sequence[str],
    seconds: float,
    patience: float,
    senders: Senders,
    readers: Readers,
    report: Report,
) -> str:
    """For so many seconds, and on a slow machine until somebody was answered."""
    refused = "inbox.db" in names and seconds > ANSWER_SECONDS

    def answered() -> bool:
        return readers.since(began)[200] > 0 and (senders.since(began)[503] > 0 or not refused)

    began = time.monotonic()
    wait_for(lambda: len(senders.since(began)) and len(readers.since(began)), "traffic", 240)
    with ExitStack() as held:
        for name in names:
            outsider = held.enter_context(
                closing(sqlite3.connect(folder / name, isolation_level=None, timeout=30))
            )
            outsider.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        threading.Event().wait(seconds)
        until(answered, patience)
        during, read = senders.since(began), readers.since(began)
    freed = time.monotonic()
    where = f"{' and '.join(names)} locked for {seconds:.0f} s"
    report.check(read[200] > 0 and set(read) == {200}, f"{where}: pages and facade are read, not {read}")
    if refused:
        report.check(during[503] > 0, f"{where}: senders are told to try again, not {during}")
    if "inbox.db" not in names:
        report.check(set(during) == {200}, f"{where}: webhooks are stored, not {during}")
    back = until(lambda: senders.since(freed)[200] > 20)
    report.check(back, f"{where}: webhooks are stored again after, not {senders.since(freed)}")
    return f"{where}: {dict(during)} to senders, {read[200]} pages"


def _read_long(folder: Path, product: Product, options: argparse.Namespace, report: Report) -> str:
    """Readers that stay open while the write-ahead log grows, and what it is afterwards."""
    seconds = 0.0 if options.short else 600.0
    began = time.monotonic()
    with ExitStack() as held:
        for name in DATABASES:
            reader = held.enter_context(closing(look(folder / name)))
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        most = WAL_LIMIT // (8 * PADDING) + 4
        heavy = Senders(
            product.port, product.webhook_path, count=8, rest=0, name="h", padding=PADDING, most=most
        )
        heavy.wait()
        threading.Event().wait(max(0.0, seconds - (time.monotonic() - began)))
        grown = _wal(folder, "inbox.db")
        report.check(
            grown > WAL_LIMIT, f"the log grew beyond its limit meanwhile, not {grown / 2**20:.0f} MiB"
        )
    small = until(lambda: max(_wal(folder, name) for name in DATABASES) <= WAL_LIMIT)
    after = {name: round(_wal(folder, name) / 2**20) for name in DATABASES}
    report.check(small, f"the logs are within 64 MiB after the reader has gone, not {after}")
    report.check(not lost(folder, heavy.acknowledged), "nothing that was acknowledged meanwhile is lost")
    report.check(set(heavy.statuses) <= {200, 503}, f"200 or 503 meanwhile, not {heavy.statuses}")
    return f"a reader: the log grew to {grown / 2**20:.0f} MiB, then {after}"


def _judge(
    folder: Path, senders: Senders, readers: Readers, options: argparse.Namespace, report: Report
) -> None:
    statuses = senders.statuses
    report.check(set(statuses) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(statuses)}")
    bound = ANSWER_SECONDS * (4 if options.short else 1)
    report.check(senders.slowest <= bound, f"an answer within {bound:.0f} s, not {senders.slowest:.1f} s")
    report.check(set(readers.statuses) == {200}, f"every page is read, not {dict(readers.statuses)}")
    applied = until(lambda: not unapplied(folder))
    report.check(applied, "every event is applied in the end")
    missing = lost(folder, senders.acknowledged)
    report.check(not missing, f"no acknowledged event is lost; {len(missing)} are, such as {missing[:1]}")


def _wal(folder: Path, name: str) -> int:
    path = folder / f"{name}-wal"
    return path.stat().st_size if path.exists() else 0
