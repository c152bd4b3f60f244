"""Trial of records that change during a full sync."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from contextlib import suppress

from integration.core.errors import PlatformError
from integration.sync.plan import PLAN
from integration.sync.reading import deletions, full_sync
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Tally
from tests.trials.long_form import LongForm
from tests.trials.tools.local_mirror import Later, LocalMirror, movable_clock
from tests.trials.trial import Trial

WAYS = (("by key", "", False), ("shuffled", "shuffle@*/cdrs", False), ("by page numbers", "", True))


class Paging(Trial):
    """Changes during a full sync lead to no gap and no duplicate.

    Disturbed: after each page three CDRs are deleted and two added at the platform; pages are read by key, in
    shuffled order and by page number.
    Checked: no remaining record is missing, none is stored twice; after two more syncs both sides are equal.
    Detects: records that are never marked as missing.
    """

    name = "paging"
    size_option, size = "--cdrs", 1500
    bugs, symptoms = ("skip_confirmation",), ("equals the platform",)
    long = LongForm(
        promises=("P14",),
        rounds=("--large",),
        minutes=5,
        remains="",
        expectation="simulator: its records at that time; hand-written exchanges: trial `exchanges`",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--large", action="store_true", help="25,000 CDRs, in larger pages")

    def disturb(self) -> None:
        cdrs = 25_000 if self.options.large else self.options.size
        self.changes: Counter[str] = Counter()
        self.patch(full_sync, "page_limit", lambda _failures: 1999 if self.options.large else 211)
        with self.embed_simulator(cdrs) as simulator, movable_clock() as later:
            for way, fault, by_pages in WAYS:
                with self.open_mirror(simulator) as mirror:
                    mirror.set_fault(fault)
                    self._sync_during_changes(mirror, way, by_pages, later)
                if self.is_seeded and self.failures:
                    break
        added, deleted = self.changes["added"], self.changes["deleted"]
        self.figures.append(f"{added} added and {deleted} deleted during full syncs of {cdrs}")

    def _sync_during_changes(self, mirror: LocalMirror, way: str, by_pages: bool, later: Later) -> None:
        cdrs, rng = PLAN["cdrs"], random.Random(f"{way} {self.options.seed}")
        records = mirror.get_records("cdrs")

        def change(_done: int, _total: int | None) -> None:
            with mirror.simulator.world.lock:
                for number in rng.sample(sorted(records), 3):
                    del records[number]
            mirror.add_cdrs(2)
            self.changes.update(deleted=3, added=2)

        for _ in range(2):
            later(5)
            with suppress(PlatformError):
                tally = Tally(show_progress=change)
                run_full_sync(mirror.context, cdrs, tally, restart=True, by_pages_only=by_pages)
            run_incremental_sync(mirror.context, cdrs)
            missing = mirror.list_keys("cdrs") - mirror.read_keys("cdrs")
            complete = mirror.get_state("cdrs").complete_at
            self.verify(
                not (missing and complete), f"{way}: no remaining record is missing, not {len(missing)}"
            )
        for _ in range(2):
            # More deletions than the limit: those of the first sync are accepted for the second.
            later(5)
            run_full_sync(mirror.context, cdrs, restart=True, by_pages_only=by_pages)
            deletions.accept_deletions(mirror.context, cdrs)
        self.verify(mirror.list_differing("cdrs") == [], f"{way}: the mirror equals the platform afterwards")
        twice = mirror.count_duplicates("cdrs")
        self.verify(twice == 0, f"{way}: no record is stored twice, not {twice}")
