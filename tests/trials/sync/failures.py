"""Trial of failing responses of the platform during a full sync."""

from __future__ import annotations

import argparse
from typing import Any

from integration.core import retry_delays
from integration.sync.plan import PLAN
from tests.trials.long_form import LongForm
from tests.trials.tools.local_mirror import LocalMirror
from tests.trials.trial import Trial

FAULTS = (
    "status=412:0.3",
    "status=500:0.3",
    "status=429/0:0.3",
    "truncate:0.3",
    "html:0.3",
    "malformed=json:0.3",
    "malformed=headers:0.3",
    "double-row:0.3",
    "short-page:0.3",
    "hang=2:0.05",
)
WRONG_TOTALS = "wrong totals"
FAULTS_OF_ONE = ("status=403", "status=500", "html", "truncate", "hang=2")
VICTIM = "contacts"


class Failures(Trial):
    """After failures during its sync a complete collection equals the platform.

    Disturbed: a share of all requests fails, in each way, during a sync of everything; totals are wrong; then
    one collection fails permanently.
    Checked: complete collections equal the platform; with one failing collection all others are read, without
    pauses, and its error is reported.
    Detects: a sync that ends after its first page.
    """

    name = "trouble"
    size_option, size = "--cdrs", 120
    bugs, symptoms = ("read_first_page",), ("equals the platform",)
    long = LongForm(
        promises=("P12",),
        rounds=("--all-failures",),
        minutes=2,
        remains="",
        expectation="simulator: its records at that time",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all-failures", action="store_true", help="every kind of failure")

    def disturb(self) -> None:
        self.patch(retry_delays, "REQUESTS", (0.002,))
        faults, faults_of_one = (
            (FAULTS, FAULTS_OF_ONE) if self.options.all_failures else (FAULTS[:4], FAULTS_OF_ONE[:2])
        )
        for fault in (*faults, WRONG_TOTALS):
            self._sync_all(fault)
            if self.is_seeded and self.failures:
                return
        for fault in faults_of_one:
            self._fail_one(fault)

    def _sync_all(self, fault: str) -> None:
        """Sync everything, with retries, until it is complete."""
        with self.open_simulated_mirror(self.options.size) as mirror:
            if fault == WRONG_TOTALS:
                self._change_totals(mirror)
            else:
                mirror.set_fault(fault)
            tries = sum(mirror.sync_patiently(name, 40) for name, one in PLAN.items() if one.kind != "live")
            mirror.set_fault("")
            differing = mirror.list_differing()
            self.verify(differing == [], f"{fault}: the mirror equals the platform, except {differing}")
            self.verify(mirror.is_complete(), f"{fault}: every collection is complete in the end")
            self.figures.append(f"{fault}: {tries} tries")

    def _change_totals(self, mirror: LocalMirror) -> None:
        """Make every other total one too high or too low."""
        page, number = mirror.platform.page, iter(range(1_000_000))

        def change(*arguments: Any, **options: Any) -> Any:
            found = page(*arguments, **options)
            turn = next(number) % 4
            if found.total and turn in (1, 3):
                return type(found)(found.records, found.total + turn - 2, found.other_keys)
            return found

        self.patch(mirror.platform, "page", change)

    def _fail_one(self, fault: str) -> None:
        """Let one collection fail permanently."""
        where = f"{fault} on /{VICTIM}"
        with self.open_simulated_mirror(self.options.size) as mirror:
            mirror.set_fault(f"{fault}@/{VICTIM}")
            with mirror.run_jobs():
                self.verify_soon(
                    lambda: mirror.is_complete(VICTIM), f"{where}: all other collections are read"
                )
                is_open = mirror.platform.budget.state().open_since is not None
                self.verify(not is_open, f"{where}: requests for other collections are not paused")
                self.verify(bool(mirror.get_state(VICTIM).last_error), f"{where}: its error is stored")
                off = mirror.health.report()["facts"].get("collections_off", [])
                self.verify((off == [VICTIM]) == ("403" in fault), f"{where}: collections off are {off}")
