"""Trials of outages of the platform."""

from __future__ import annotations

import argparse
import threading
import time

from integration.core import clock
from integration.core.commands import Progress
from integration.platform_api import retry
from integration.sync import jobs
from integration.sync.plan import PLAN
from integration.sync.reading import verify_coverage
from tests.trials.trial import Trial, until

OUTAGES = ("status=503", "html", "status=429/30", "status=500", "malformed=json", "malformed=headers")
SPEED = 20.0
"""Seconds on the product's clocks in a second of the trial."""
DAY = 86_400.0
STEP = 600.0
"""Seconds by which the clocks of the trial `day` advance."""
MAX_MINUTES = 10
"""Minutes after an outage in which the mirror must equal the platform."""


class Outage(Trial):
    """An outage causes few requests; afterwards the mirror catches up.

    Disturbed: outages of each kind, in which CDRs are added; the product's clocks run 20 times as fast.
    Checked: at most a request a minute and path; ten minutes later the mirror equals the platform.
    Detects: requests without a pause after a failure.
    """

    name = "away"
    size_option, size = "--cdrs", 150
    bugs, symptoms = ("skip_pauses",), ("requests to",)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=10.0, help="of each outage")
        parser.add_argument("--all-outages", action="store_true", help="not only the first two")

    def disturb(self) -> None:
        unix, monotonic = clock.unix, clock.monotonic
        wall, steady = unix(), monotonic()
        # The scheduler's own clock is not changed.
        self.patch(clock, "unix", lambda: wall + (unix() - wall) * SPEED)
        self.patch(clock, "monotonic", lambda: steady + (monotonic() - steady) * SPEED)
        self.patch(jobs, "FULL_SYNC_CHECK_SECONDS", 0.3)
        self.patch(retry, "GAPS", (0.01,))
        kinds = OUTAGES if self.options.all_outages else OUTAGES[:2]
        for fault in kinds[:1] if self.is_seeded else kinds:
            self._fail(fault, self.options.seconds)

    def _fail(self, fault: str, seconds: float) -> None:
        settings = {"SWITCHROOM_PLATFORM__TIMEOUT": "120"}
        with self.open_simulated_mirror(self.options.size, **settings) as mirror, mirror.run_jobs():
            self.verify_soon(mirror.is_complete, f"{fault}: the initial sync ends")
            mirror.set_fault(fault)
            mirror.simulator.context.request_log.clear()
            begun = time.monotonic()
            mirror.add_cdrs(30)
            threading.Event().wait(seconds)
            minutes = (time.monotonic() - begun) * SPEED / 60
            path, count = (mirror.count_requests().most_common(1) or [("", 0)])[0]
            limit = minutes + 4
            self.verify(count <= limit, f"{fault}: at most {limit:.0f} requests to {path}, not {count}")
            if self.is_seeded:
                return
            mirror.add_cdrs(30)
            mirror.set_fault("")
            ended = time.monotonic()
            is_equal = until(lambda: mirror.list_differing() == [], 30)
            took = (time.monotonic() - ended) * SPEED / 60
            self.verify(
                is_equal and took <= MAX_MINUTES,
                f"{fault}: {mirror.list_differing()} differ after {took:.1f} min",
            )
            self.figures.append(f"{fault}: {count} requests in {minutes:.0f} min, equal after {took:.1f} min")


class DayOffline(Trial):
    """After 24 hours without the platform nothing is missing.

    Disturbed: the platform fails for a day in which CDRs are added; time is moved.
    Checked: at most a request a minute and path; ten minutes later the mirror equals the platform, each
    record is stored once, and every collection is verified as complete.
    Detects: CDRs that are not requested after an outage.
    """

    name = "day"
    size_option, size = "--cdrs", 120
    bugs, symptoms = ("stay_offline",), ("equals the platform",)

    def disturb(self) -> None:
        self.passed, unix, monotonic = 0.0, clock.unix, clock.monotonic
        self.patch(clock, "unix", lambda: unix() + self.passed)
        self.patch(clock, "monotonic", lambda: monotonic() + self.passed)
        mirror = self.mirror = self.cleanup.enter_context(self.open_simulated_mirror(self.options.size))
        self.jobs, self.scheduler = self.cleanup.enter_context(mirror.run_jobs())
        self.verify_soon(mirror.is_complete, "the initial sync ends")
        mirror.set_fault("status=503")
        mirror.simulator.context.request_log.clear()
        begun, added = clock.unix(), 0
        while self.passed < DAY:
            self.passed += STEP
            mirror.add_cdrs(2)
            added += 2
            self.jobs.scheduler.run_all_now()
            threading.Event().wait(0.05)
        requests, minutes = mirror.count_requests(), (clock.unix() - begun) / 60
        path, count = (requests.most_common(1) or [("", 0)])[0]
        self.verify(count <= minutes, f"at most a request a minute: {count} to {path} in {minutes:.0f} min")
        self.figures.append(
            f"{added} CDRs in 24 h offline, {sum(requests.values())} requests, at most {count} to a path"
        )

    def check(self) -> None:
        mirror = self.mirror
        mirror.set_fault("")
        ended = clock.unix()

        def is_equal() -> bool:
            self.passed += 20
            self.jobs.scheduler.run_all_now()
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
