"""Trial of damaged pages."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

from integration.sqlite.database_files import find_faults
from tests.support.harness import keep_port, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools.databases import DATABASES, query_rows
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial

READY_SECONDS = 60.0
"""Longest time until webhooks are stored after a page was damaged."""
PAGE_BYTES = 4096
INTERIOR_PAGES = (2, 5)
"""Types of pages that lead to others, one in some hundreds. All webhooks behind such a page are lost."""
SIDE_FILES = ("", "-wal", "-shm")
MAX_LOST = 100
"""Webhooks above which more than one page of inbox.db was lost."""
REPAIR = "copy house.db from the newest backup"


class Damaged(Trial):
    """A damaged page of webhooks costs only these; each loss is named.

    Disturbed: under load the product is killed, a random page of a database is overwritten, and the product
    is started. In every third round the page is overwritten before the kill.
    Checked: webhooks are stored within 60 s, each acknowledged event is stored or within a named loss, the
    others have an effect, and the damaged files are replaced; a damaged house.db is named with what to do.
    Detects: a damaged inbox.db that is replaced by an empty one.
    """

    name = "damaged"
    size_option, size = "--rounds", 50
    bugs, symptoms = ("drop_damaged_inbox",), ("webhooks of other pages are saved",)
    short = ("--rounds 1", "--rounds 4 --seed-bug")
    long = LongForm(
        rounds=("--rounds 5",) * 4,
        minutes=12,
        expectation="by hand: the senders' own list and the named losses",
    )

    def boot(self) -> None:
        self.random = random.Random(self.options.seed)
        kept = self.cleanup.enter_context(keep_port())
        self.port = kept.getsockname()[1]
        self.product = self.start_product(self.data_dir, port=self.port)
        self.acknowledged: set[str] = set()
        self.lost: set[str] = set()
        self.recoveries: list[float] = []
        self.replaced_count = 0

    def disturb(self) -> None:
        for number in range(self.options.size):
            for name in ("inbox.db",) if self.is_seeded else DATABASES:
                self._run_round(number, name)

    def _run_round(self, number: int, name: str) -> None:
        where = f"round {number}, {name}"
        senders = Senders(
            self.port, self.product.webhook_path, name=f"{number}-{name}-", first=6 * len(self.recoveries)
        )
        wait_for(lambda: senders.statuses[200] > 300, "acknowledgements", 120)
        if number % 3 == 2:
            self._overwrite_page(name)
        self.kill_product(self.product)
        began = time.monotonic()
        before = self._read_inbox(self.folder / "before.db")
        if number % 3 != 2:
            self._keep_app_db()
            self._overwrite_page(name)
        self._start(name)
        self.verify_soon(
            lambda: senders.since(began)[200] > 50, f"{where}: webhooks are stored again", READY_SECONDS
        )
        self.recoveries.append(time.monotonic() - began)
        self._await_repair(where)
        senders.stop()
        self.acknowledged |= senders.acknowledged
        self._check_losses(where, before)

    def _start(self, name: str) -> None:
        try:
            self.product = self.start_product(self.data_dir, port=self.port)
        except RuntimeError as error:
            self.verify(REPAIR in str(error), f"{name}: the refusal of the start says what to do: {error}")
            self._copy_app_db_back()
            self.product = self.start_product(self.data_dir, port=self.port)

    def _keep_app_db(self) -> None:
        for suffix in SIDE_FILES:
            (self.folder / f"house.db{suffix}").unlink(missing_ok=True)
            if (source := self.data_dir / f"house.db{suffix}").exists():
                shutil.copy(source, self.folder / source.name)

    def _copy_app_db_back(self) -> None:
        for suffix in SIDE_FILES:
            (self.data_dir / f"house.db{suffix}").unlink(missing_ok=True)
            if (source := self.folder / f"house.db{suffix}").exists():
                shutil.copy(source, self.data_dir / source.name)

    def _overwrite_page(self, name: str) -> None:
        path = self.data_dir / name
        # A kill can leave most pages in the -wal; the middle half of an inbox has pages with webhooks.
        pages = path.stat().st_size // PAGE_BYTES
        candidates = list(range(pages // 4, max(pages // 4 + 1, 3 * pages // 4)))
        self.random.shuffle(candidates)
        with open(path, "r+b") as file:
            for page in candidates:
                file.seek(page * PAGE_BYTES)
                if file.read(1)[0] not in INTERIOR_PAGES:
                    break
            file.seek(page * PAGE_BYTES)
            file.write(b"\xee" + self.random.randbytes(PAGE_BYTES - 1))

    def _read_inbox(self, copy: Path) -> Mapping[str, int]:
        """Return the seqs of the stored events, from a copy."""
        for suffix in SIDE_FILES:
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
            if (source := self.data_dir / f"inbox.db{suffix}").exists() and suffix != "-shm":
                shutil.copy(source, copy.with_name(copy.name + suffix))
        try:
            return dict(query_rows(copy, "SELECT event_id, seq FROM inbox"))
        except sqlite3.DatabaseError:
            return {}

    def _await_repair(self, where: str) -> None:
        self.verify_soon(
            lambda: not self._find_faults("inbox.db", "mirror.db"),
            lambda: f"{where}: is repaired: {self._find_faults('inbox.db', 'mirror.db')}",
            READY_SECONDS,
        )
        if self._find_faults("house.db"):
            self.verify_soon(
                lambda: REPAIR in str(self._read_app_db_problem()),
                lambda: f"{where}: the health check says what to do: {self._read_app_db_problem()}",
                READY_SECONDS,
            )
            self.kill_product(self.product)
            self._copy_app_db_back()
            self.product = self.start_product(self.data_dir, port=self.port)

    def _find_faults(self, *names: str) -> list[str]:
        return [f"{name}: {fault}" for name in names for fault in find_faults(self.data_dir / name)]

    def _read_app_db_problem(self) -> str | None:
        checks = self.product.client.json("GET", "/readyz")["checks"]
        problem: str | None = checks["content of house.db"]["error"]
        return problem

    def _check_losses(self, where: str, before: Mapping[str, int]) -> None:
        inbox = self.data_dir / "inbox.db"
        stored = {row[0] for row in query_rows(inbox, "SELECT event_id FROM inbox")}
        missing = {event: seq for event, seq in before.items() if event not in stored} if before else {}
        missing = {event: seq for event, seq in missing.items() if event not in self.lost}
        ranges = query_rows(inbox, "SELECT first_seq, last_seq FROM losses")
        unnamed = [seq for seq in missing.values() if not any(low <= seq <= high for low, high in ranges)]
        self.verify(not unnamed, f"{where}: each lost webhook is named, not {unnamed[:5]}")
        self.verify(
            len(missing) <= MAX_LOST, f"{where}: webhooks of other pages are saved, not {len(missing)} lost"
        )
        self.lost |= missing.keys()
        for path in self.data_dir.glob("*.damaged-*"):
            self.replaced_count += path.name.count("-") == 2
            path.unlink()

    def check(self) -> None:
        self.verify_applied(self.data_dir, 60)
        self.verify_stored(self.data_dir, self.acknowledged - self.lost)
        applied = {
            row[0] for row in query_rows(self.data_dir / "mirror.db", "SELECT event_id FROM _leg_events")
        }
        without_effect = self.acknowledged - self.lost - applied
        self.verify(not without_effect, f"every event has an effect, not {sorted(without_effect)[:3]}")
        self.figures.append(
            f"{len(self.recoveries)} pages overwritten, {self.replaced_count} files replaced,"
            f" {len(self.acknowledged)} events acknowledged, {len(self.lost)} lost and named,"
            f" stored again within {max(self.recoveries):.1f} s"
        )
