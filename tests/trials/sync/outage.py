"""Trial of an outage of the platform."""

from __future__ import annotations

import argparse
import threading

from integration.core import clock
from integration.core.commands import Progress
from integration.sync.plan import PLAN
from integration.sync.reading import verify_coverage
from tests.trials.trial import Trial, until

DAY_FAULTS = ("status=503", "html", "status=429/30", "malformed=json")
DAY = 86_400.0
STEP = 600.0
"""Seconds by which the clocks of the trial `day` advance."""
MAX_MINUTES = 10
"""Minutes after an outage in which the mirror must equal the platform."""


class DayOffline(Trial):
    """After 24 hours without the platform nothing is missing.

    Disturbed: the platform fails for a day, in one of the ways of an outage, while CDRs are added; time is
    moved.
    Checked: at most a request a minute and path; ten minutes later the mirror equals the platform, each
    record is stored once, and every collection is verified as complete.
    Detects: CDRs that are not requested after an outage.
    """

    name = "day"
    size_option, size = "--cdrs", 120
    bugs, symptoms = ("stay_offline",), ("equals the platform",)
    promises = ("P12",)
    long = tuple(f"--fault {fault}" for fault in DAY_FAULTS)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--fault", default="status=503", help=f"such as {', '.join(DAY_FAULTS)}")

    def disturb(self) -> None:
        self.passed, unix, monotonic = 0.0, clock.unix, clock.monotonic
        self.patch(clock, "unix", lambda: unix() + self.passed)
        self.patch(clock, "monotonic", lambda: monotonic() + self.passed)
        simulator = self.embed_simulator(self.options.size)
        mirror = self.mirror = self.cleanup.enter_context(self.open_mirror(simulator))
        self.jobs, self.scheduler = self.cleanup.enter_context(mirror.run_jobs())
        self.verify_soon(mirror.is_complete, "the initial sync ends")
        mirror.set_fault(self.options.fault)
        simulator.context.request_log.clear()
        begun, added = clock.unix(), 0
        while self.passed < DAY:
            self.passed += STEP
            mirror.add_cdrs(2)
            added += 2
            self.jobs.run_all_now()
            threading.Event().wait(0.05)
        minutes = (clock.unix() - begun) / 60
        ((path, count),) = mirror.count_requests().most_common(1)
        mirror.set_fault("")
        self.verify(count <= minutes, f"at most a request a minute: {count} to {path} in {minutes:.0f} min")
        self.figures.append(
            f"{self.options.fault}: {added} CDRs in 24 h offline, at most {count} requests to {path}"
        )

    def check(self) -> None:
        mirror = self.mirror
        ended = clock.unix()

        def is_equal() -> bool:
            self.passed += 20
            self.jobs.run_all_now()
            until(lambda: self.scheduler.is_idle)
            return mirror.list_differing() == []

        caught_up = until(is_equal, 10 if self.is_seeded else 240)
        took = (clock.unix() - ended) / 60
        differing = mirror.list_differing()
        self.verify(
            caught_up and took <= MAX_MINUTES,
            f"the mirror equals the platform after {took:.1f} min, except {differing}",
        )
        twice = mirror.count_duplicates("cdrs")
        self.verify(twice == 0, f"no record is stored twice, not {twice}")
        progress = Progress(lambda _facts: None, lambda: True)
        result = verify_coverage.verify_completeness(mirror.context, {"resources": list(PLAN)}, progress)
        incomplete = [one["collection"] for one in result["proofs"] if one["error"] or one["gaps"]]
        self.verify(result["complete"], f"every collection is complete, except {incomplete}")
        self.figures.append(f"equal after {took:.1f} min")
