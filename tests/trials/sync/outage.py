"""Trial of an outage of the platform."""

from __future__ import annotations

import argparse

from integration.core import clock
from integration.core.commands import Progress
from integration.sync.plan import PLAN
from integration.sync.reading import verify_coverage
from tests.trials.tools.local_product import count_requests
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
        self.simulator = simulator = self.embed_simulator(self.options.size)
        self.product = product = self.cleanup.enter_context(self.run_product(simulator))
        simulator.context.faults.add(self.options.fault)
        simulator.context.request_log.clear()
        steps = int(DAY / STEP)
        for _ in range(steps):
            self._add_cdrs(2)
            product.advance(STEP)
        ((path, count),) = count_requests(simulator).most_common(1)
        simulator.context.faults.clear()
        minutes = DAY / 60
        self.verify(count <= minutes, f"at most a request a minute: {count} to {path} in {minutes:.0f} min")
        self.figures.append(
            f"{self.options.fault}: {2 * steps} CDRs in 24 h offline, at most {count} requests to {path}"
        )

    def _add_cdrs(self, count: int) -> None:
        """Add CDRs at the platform, dated now."""
        world = self.simulator.world
        cdrs = world.collections["cdrs"]
        with world.lock:
            pattern = dict(list(cdrs.records.values())[-1])
            for _ in range(count):
                number, leg = world.new_id("cdrs"), world.new_id("calls")
                ids = {"id": number, "live_id": leg, "root_live_id": leg}
                cdrs.add({**pattern, **ids, "calldate": clock.utc_text()})

    def check(self) -> None:
        product, ended = self.product, clock.unix()

        def is_equal() -> bool:
            product.advance(20)
            return product.list_differing(self.simulator) == []

        caught_up = until(is_equal, 10 if self.is_seeded else 240)
        took = (clock.unix() - ended) / 60
        differing = product.list_differing(self.simulator)
        self.verify(
            caught_up and took <= MAX_MINUTES,
            f"the mirror equals the platform after {took:.1f} min, except {differing}",
        )
        twice = product.query_value("SELECT count(*) - count(DISTINCT id) FROM cdrs")
        self.verify(twice == 0, f"no record is stored twice, not {twice}")
        progress = Progress(lambda _facts: None, lambda: True)
        result = verify_coverage.verify_completeness(product.context, {"resources": list(PLAN)}, progress)
        incomplete = [one["collection"] for one in result["proofs"] if one["error"] or one["gaps"]]
        self.verify(result["complete"], f"every collection is complete, except {incomplete}")
        self.figures.append(f"equal after {took:.1f} min")
