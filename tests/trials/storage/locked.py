"""Trial of write locks and long reads of another process."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import wait_for
from tests.trials.tools.databases import DATABASES, find_lost, measure_wal, open_database
from tests.trials.tools.traffic import Readers, Senders, create_access, lock_databases
from tests.trials.trial import NO_TRAFFIC, Trial, await_sync, until

RESPONSE_SECONDS = 5.0
PADDING = 200_000
READ_SECONDS = 600.0


class Locked(Trial):
    """A locked database delays no reader, and loses no acknowledged event.

    Disturbed: webhooks arrive, pages are read and a sync writes while another process holds the write lock of
    each database for 1, 10 and 60 s; then one reads for 10 min while the write-ahead log grows.
    Checked: webhooks get 200 or 503, pages get 200, acknowledged events are stored, and the logs return to
    their size limit once the reader has ended.
    Detects: webhooks that are acknowledged without being stored.
    """

    name = "locked"
    bugs, symptoms = ("acknowledge_unstored",), ("lost",)
    short = ("--short", "--short --seed-bug")
    promises = ("P16",)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--short", action="store_true", help="all locks at once, for seconds")

    def boot(self) -> None:
        simulator = self.start_simulator(*NO_TRAFFIC, history=150)
        access = create_access(self.data_dir)
        self.product = self.start_product(self.data_dir, simulator, sync__recent_interval="1")
        await_sync(self.product, "cdrs")
        self.pages = access.list_pages()

    def load(self) -> None:
        self.senders = Senders(self.product.port, self.product.webhook_path)
        self.readers = Readers(self.product.port, self.pages)

    def disturb(self) -> None:
        all_at_once: list[tuple[Sequence[str], float]] = [(DATABASES, 6.0)]
        one_by_one = [((name,), seconds) for name in DATABASES for seconds in (1.0, 10.0, 60.0)]
        for names, seconds in all_at_once if self.options.short or self.is_seeded else one_by_one:
            self._hold(names, seconds)
        if not self.is_seeded:
            self._read_long()
        self.readers.stop()
        self.senders.stop()

    def _hold(self, names: Sequence[str], seconds: float) -> None:
        """Hold locks for `seconds`, and until each expected response has come."""
        is_refused = "inbox.db" in names and seconds > RESPONSE_SECONDS

        def has_responses() -> bool:
            refused = self.senders.since(began)[503] > 0
            return self.readers.since(began)[200] > 0 and (refused or not is_refused)

        began = time.monotonic()
        wait_for(lambda: len(self.senders.since(began)) and len(self.readers.since(began)), "traffic", 240)
        with lock_databases(self.data_dir, names):
            began = time.monotonic()
            threading.Event().wait(seconds)
            until(has_responses, 0.0 if self.is_seeded else 60.0)
            sent, read = self.senders.since(began), self.readers.since(began)
        freed = time.monotonic()
        where = f"{' and '.join(names)} locked for {seconds:.0f} s"
        self.verify(read[200] > 0 and set(read) == {200}, f"{where}: pages and facade get 200, not {read}")
        if is_refused:
            self.verify(sent[503] > 0, f"{where}: webhooks get 503, not {sent}")
        if "inbox.db" not in names:
            self.verify(set(sent) == {200}, f"{where}: webhooks are stored, not {sent}")
        self.verify_soon(
            lambda: self.senders.since(freed)[200] > 20,
            lambda: f"{where}: webhooks are stored afterwards, not {self.senders.since(freed)}",
        )
        self.figures.append(f"{where}: {dict(sent)} to senders, {read[200]} pages")

    def _read_long(self) -> None:
        """Keep readers open while the write-ahead log grows beyond its limit."""
        seconds = 0.0 if self.options.short else READ_SECONDS
        began = time.monotonic()
        with ExitStack() as held:
            for name in DATABASES:
                reader = held.enter_context(closing(open_database(self.data_dir / name)))
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            most = WAL_LIMIT // (8 * PADDING) + 4
            heavy = Senders(
                self.product.port,
                self.product.webhook_path,
                count=8,
                rest=0,
                name="h",
                padding=PADDING,
                most=most,
            )
            heavy.wait()
            threading.Event().wait(max(0.0, seconds - (time.monotonic() - began)))
            grown = measure_wal(self.data_dir, "inbox.db")
            self.verify(grown > WAL_LIMIT, f"the log grew beyond its limit, not to {grown / 2**20:.0f} MiB")

        def sizes() -> dict[str, int]:
            return {name: measure_wal(self.data_dir, name) for name in DATABASES}

        self.verify_soon(
            lambda: max(sizes().values()) <= WAL_LIMIT,
            lambda: f"each log is within 64 MiB again, not {sizes()}",
        )
        lost = find_lost(self.data_dir, heavy.acknowledged)
        self.verify(not lost, f"no event acknowledged during the read is lost, not {lost[:1]}")
        self.verify(set(heavy.statuses) <= {200, 503}, f"webhooks get 200 or 503, not {heavy.statuses}")
        self.figures.append(f"during a long read the log grew to {grown / 2**20:.0f} MiB")

    def check(self) -> None:
        statuses = self.senders.statuses
        self.verify(set(statuses) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(statuses)}")
        limit = RESPONSE_SECONDS * (4 if self.options.short else 1)
        slowest = self.senders.slowest
        self.verify(
            slowest <= limit, f"a webhook gets its response within {limit:.0f} s, not {slowest:.1f} s"
        )
        read = self.readers.statuses
        self.verify(set(read) == {200}, f"every page gets 200, not {dict(read)}")
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
