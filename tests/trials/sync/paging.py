"""Promise P14: records come and go during complete walks, by key, in a shuffled order and by page numbers:
nothing that stays is missed, nothing doubled, and then the two are the same set.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from integration.core.errors import PlatformError
from integration.mirror.sync_state import collection_state
from integration.sync.plan import PLAN
from integration.sync.reading import deletions, full_sync
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.incremental_sync import run_incremental_sync
from integration.sync.reading.page_store import Tally
from tests.trials.sync.platform import (
    MirrorTrial,
    Report,
    add_cdrs,
    movable_clock,
    open_mirror_trial,
    parse_options,
    run_simulator,
)


def main(arguments: list[str]) -> int:
    options = parse_options("paging", arguments, cdrs=25_000 if "--long" in arguments else 1500)
    report, changed = Report("paging"), Counter[str]()
    limit, settle = full_sync.page_limit, deletions.confirm_missing
    full_sync.page_limit = lambda _failures: 1999 if options.long else 211
    if options.seed_bug:
        deletions.confirm_missing = lambda *_arguments: None
    try:
        with (
            run_simulator(options) as simulator,
            tempfile.TemporaryDirectory() as folder,
            movable_clock() as later,
        ):
            for about, fault, by_pages in (
                ("by key", "", False),
                ("shuffled", "shuffle@*/cdrs", False),
                ("by page numbers", "", True),
            ):
                with open_mirror_trial(Path(folder, about), simulator) as made:
                    made.faults(fault)
                    changed += _changing_pages(made, about, by_pages, options.seed, later, report)
                if options.seed_bug and report.broken:
                    break
    finally:
        full_sync.page_limit, deletions.confirm_missing = limit, settle
    found = bool(report.broken)
    about = f"{changed['added']} added and {changed['deleted']} deleted during walks of {options.cdrs}"
    return report.end(about) if not options.seed_bug else int(not found)


def _changing_pages(
    made: MirrorTrial, about: str, by_pages: bool, seed: int, later: Callable[[float], None], report: Report
) -> Counter[str]:
    """Walk from nothing while records come and go, then once more in peace."""
    cdrs, rng, changed = PLAN["cdrs"], random.Random(f"{about} {seed}"), Counter[str]()
    records = made.simulator.world.collections["cdrs"].records

    def change(_done: int, _total: int | None) -> None:
        with made.simulator.world.lock:
            for number in rng.sample(sorted(records), 3):
                del records[number]
        add_cdrs(made, 2)
        changed.update(deleted=3, added=2)

    for _ in range(2):
        later(5)
        with suppress(PlatformError):
            run_full_sync(made.parts, cdrs, Tally(show_progress=change), restart=True, by_pages_only=by_pages)
        run_incremental_sync(made.parts, cdrs)
        gone = made.there("cdrs") - made.here("cdrs")
        with made.mirror_db.read() as connection:
            complete = collection_state.get_state(connection, "cdrs").complete_at
        report.check(
            not (gone and complete), f"{about}: nothing that stays is missed, not {len(gone)} records"
        )
    for _ in range(2):
        # More than the brake lets go: what the first holds is accepted for the second.
        later(5)
        run_full_sync(made.parts, cdrs, restart=True, by_pages_only=by_pages)
        deletions.accept_deletions(made.parts, cdrs)
    report.check(made.differing_in(["cdrs"]) == [], f"{about}: then the two are the same set")
    with made.mirror_db.read() as connection:
        twice = connection.execute("SELECT count(*) - count(DISTINCT id) FROM cdrs").fetchone()[0]
    report.check(twice == 0, f"{about}: nothing is here twice")
    return changed
