"""Trial of bulk work on many records while webhooks arrive."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tests.benchmarks.tools import load
from tests.benchmarks.tools.data_dirs import get_data_dir
from tests.benchmarks.tools.office import shared_number
from tests.support.harness import Process, Product, keep_port
from tests.trials.tools.databases import query_number, query_rows
from tests.trials.tools.traffic import Response, Senders
from tests.trials.trial import Trial

RESPONSE_SECONDS = 10.0
"""Seconds within which each webhook gets its response, on a machine with other work: 5 on a quiet one."""
REFUSED_SECONDS, REFUSED_SECONDS_PER_MILLION = 60.0, 120.0
"""Longest time of refusals during one operation: a constant, and a part for each million CDRs."""
OPERATION_SECONDS, OPERATION_SECONDS_PER_MILLION = 600.0, 1200.0
"""Longest time of one operation: a constant, and a part for each million CDRs."""
CDRS_PER_WEBHOOK = 20
"""CDRs for each webhook that is stored before the trial, so that `inbox.db` has its size too."""
INDEXES = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'cdrs' AND sql IS NOT NULL"
INDEX_START, MIGRATION = "a start that builds indexes", "a migration of all CDRs"


class Bulk(Trial):
    """Bulk work on many records never delays a webhook without a response.

    Disturbed: while webhooks arrive, `backup`, `verify` and `erase` run on a mirror with `--cdrs` CDRs; then
    the product is started twice, once without the indexes of CDRs and once with a migration that rewrites
    each CDR.
    Checked: each webhook is acknowledged or gets 503 with Retry-After, within seconds; 503 ends after a
    bounded time; acknowledged events are stored once; operations succeed.
    Detects: a start that stores webhooks after the migration of another database only.
    """

    name = "bulk"
    size_option, size = "--cdrs", 200_000
    bugs, symptoms = ("receive_last",), (f"{MIGRATION}: webhooks are stored meanwhile",)
    short = ("--cdrs 3000", "--cdrs 2500 --seed-bug")
    promises = ("P29",)
    long = ("--cdrs 200000",)

    def boot(self) -> None:
        shutil.copytree(
            get_data_dir(self.options.size), self.data_dir, ignore=shutil.ignore_patterns("control.sock")
        )
        self.data_dir.chmod(0o700)
        kept = self.cleanup.enter_context(keep_port())
        self.port: int = kept.getsockname()[1]
        self.product = self._start()
        stored = max(200, self.options.size // CDRS_PER_WEBHOOK)
        path = self.product.webhook_path
        load.run(self.port, path, requests=stored, connections=8, first=10_000_000)
        self.verify_applied(self.data_dir, 900)
        self.path = path

    def load(self) -> None:
        self.senders = Senders(self.port, self.path, count=4, rest=0.02)

    def disturb(self) -> None:
        if not self.is_seeded:
            self._measure("a backup", lambda: self._run("backup", str(self.folder / "backups")))
            # The erasure needs as much space again.
            shutil.rmtree(self.folder / "backups")
            self._measure("a verification", lambda: self._run("verify"))
            self._measure("an erasure", lambda: self._run("erase", shared_number(1), "--yes"))
            self._measure(INDEX_START, self._build_indexes)
        self._measure(MIGRATION, self._migrate)
        self.senders.stop()

    def _measure(self, what: str, work: Callable[[], None]) -> None:
        """Run `work`; check the responses that webhooks got since it began."""
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        # A response to a webhook of this operation comes within RESPONSE_SECONDS of its end.
        until = time.monotonic() + RESPONSE_SECONDS
        while time.monotonic() < until and not any(
            response.status == 200 for response in self.senders.list_since(began + seconds)
        ):
            threading.Event().wait(0.05)
        found = self.senders.list_since(began)
        statuses = Counter(response.status for response in found)
        # Status 0 is a connection that no process accepts, between a stop and the next start.
        self.verify(set(statuses) <= {0, 200, 503}, f"{what}: webhooks get 200 or 503, not {dict(statuses)}")
        is_restart = what in (INDEX_START, MIGRATION)
        is_open = is_restart or not statuses[0]
        self.verify(is_open, f"{what}: each connection is accepted, not {dict(statuses)}")
        slowest = max((response.seconds for response in found if response.status), default=0.0)
        is_fast = slowest <= RESPONSE_SECONDS
        self.verify(is_fast, f"{what}: a response within {RESPONSE_SECONDS:g} s, not {slowest:.1f} s")
        refused = [response for response in found if response.status == 503]
        has_times = all(response.has_retry_after for response in refused)
        self.verify(has_times, f"{what}: each 503 has Retry-After")
        span = _measure_span(refused)
        limit = REFUSED_SECONDS + REFUSED_SECONDS_PER_MILLION * self.options.size / 1e6
        self.verify(span <= limit, f"{what}: refusals end after {limit:.0f} s at most, not {span:.1f} s")
        if is_restart:
            # The process that stops refuses those that arrive after it has closed inbox.db.
            self.verify(span <= 1.0, f"{what}: webhooks are stored meanwhile, not {dict(statuses)}")
        self.figures.append(
            f"{what} in {seconds:.1f} s: {statuses[200]:,} acknowledged, {statuses[503]:,} refused within "
            f"{span:.1f} s, slowest response {slowest:.2f} s"
        )

    def _build_indexes(self) -> None:
        """Restart the product without the indexes of CDRs."""
        mirror = self.data_dir / "mirror.db"
        names = [row[0] for row in query_rows(mirror, INDEXES)]
        with self._restart():
            with closing(sqlite3.connect(mirror)) as connection:
                for name in names:
                    connection.execute(f'DROP INDEX "{name}"')
                connection.commit()
        built = [row[0] for row in query_rows(mirror, INDEXES)]
        self.verify(sorted(built) == sorted(names), f"the start builds all {len(names)} indexes, not {built}")

    def _migrate(self) -> None:
        with self._restart("rewrite_all_cdrs"):
            pass

    @contextmanager
    def _restart(self, *plants: str) -> Iterator[None]:
        """Stop the product, and start it after the block."""
        self.stop_product(self.product)
        yield
        self.product = self._start(*plants)

    def _start(self, *plants: str) -> Product:
        program = self.make_program(*plants)
        return self.start_product(
            self.data_dir, port=self.port, program=program, recordings__download="false"
        )

    def _run(self, *arguments: str) -> None:
        """Run a command of the product beside the worker."""
        run = Process([sys.executable, "app.py", *arguments], self.product.environment)
        status = run.popen.wait(OPERATION_SECONDS + OPERATION_SECONDS_PER_MILLION * self.options.size / 1e6)
        self.verify(status == 0, f"{arguments[0]} ends with status 0, not {status}:\n{run.output[-600:]}")

    def check(self) -> None:
        self.verify_applied(self.data_dir, 900)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        cdrs = query_number(self.data_dir / "mirror.db", "SELECT count(*) FROM cdrs")
        self.verify(cdrs == self.options.size, f"{self.options.size:,} CDRs are stored, not {cdrs:,}")


def _measure_span(refused: list[Response]) -> float:
    """Return the seconds from the first refusal to the last."""
    moments = [response.ended_at for response in refused]
    return max(moments) - min(moments) if moments else 0.0
