"""Promises P11 to P14 further: every kind of trouble, and a day without the platform.

    trouble  each way to fail, at a share of all requests, while everything is read: what is called complete
             is equal; then one collection alone that fails: no other suffers
    day      24 hours away while calls go on: hardly asked meanwhile, equal ten minutes after, each
             record once, the ledger proved

The sync jobs run over real HTTP against the simulator; the day is moved through, not waited for.
"""

from __future__ import annotations

import argparse
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from integration.core import clock
from integration.core.commands import Progress
from integration.core.errors import PlatformError
from integration.mirror.sync_state import collection_state
from integration.platform_api import retry
from integration.platform_api.circuit import CircuitOpen
from integration.sync.plan import PLAN
from integration.sync.reading import full_sync, verify
from integration.sync.reading.full_sync import run_full_sync
from tests.support.applications.scheduled_jobs import ScheduledJobs
from tests.trials.sync.platform import MirrorTrial, Report, add_cdrs, open_simulated_trial, until

TROUBLES = (
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
CHANGING = "changing totals"
ALONE = ("status=403", "status=500", "html", "truncate", "hang=2")
VICTIM = "contacts"
DAY = 86_400.0
STEP = 600.0
"""Seconds of the day that pass at once."""


def parse_options(name: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m tests.trials {name}")
    parser.add_argument("--cdrs", type=int, default=120, help="calls at the platform")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="every kind of trouble")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    return parser.parse_args(arguments)


# --- trouble -----------------------------------------------------------------------------------------


def trouble(arguments: list[str]) -> int:
    options = parse_options("trouble", arguments)
    report, told = Report("trouble"), []
    before, retry.GAPS = retry.GAPS, (0.002,)
    real, limit = full_sync.read_by_key, full_sync.page_limit
    if options.seed_bug:
        # The first page is taken for all.
        full_sync.page_limit = lambda _failures: 20
        full_sync.read_by_key = lambda *asked, **options: islice(real(*asked, **options), 1)
    try:
        kinds, alone = (TROUBLES, ALONE) if options.long else (TROUBLES[:4], ALONE[:2])
        for fault in (*kinds, CHANGING):
            told.append(f"{fault}: {_everything(fault, options, report)} tries")
            if options.seed_bug and report.broken:
                break
        for fault in () if options.seed_bug else alone:
            _alone(fault, options, report)
    finally:
        retry.GAPS = before
        full_sync.read_by_key, full_sync.page_limit = real, limit
    found = bool(report.broken)
    return report.end("; ".join(told)) if not options.seed_bug else int(not found)


def _everything(fault: str, options: argparse.Namespace, report: Report) -> int:
    """Read everything until it is complete; returns how many tries that took."""
    tries = 0
    with open_simulated_trial(options) as made:
        if fault == CHANGING:
            _change_totals(made)
        else:
            made.faults(fault)
        for policy in PLAN.values():
            if policy.kind == "live":
                continue
            for _ in range(40):
                tries += 1
                with suppress(PlatformError):
                    run_full_sync(made.parts, policy)
                    break
        made.faults("")
        different = made.differing()
        report.check(different == [], f"{fault}: what is called complete is equal, not {different}")
        report.check(made.complete(), f"{fault}: all is read in the end")
    return tries


def _change_totals(made: MirrorTrial) -> None:
    """Every other count is one too many or one too few."""
    real, number = made.platform.page, iter(range(1_000_000))

    def page(*args: object, **options: object) -> object:
        found = real(*args, **options)  # type: ignore[arg-type]
        turn = next(number) % 4
        if found.total and turn in (1, 3):
            return type(found)(found.records, found.total + turn - 2, found.other_keys)
        return found

    made.platform.page = page  # type: ignore[method-assign, assignment]


def _alone(fault: str, options: argparse.Namespace, report: Report) -> None:
    """One collection fails for good."""
    with open_simulated_trial(options) as made:
        made.faults(f"{fault}@/{VICTIM}")
        scheduled = ScheduledJobs(made.settings, made.mirror_db, made.platform, made.calls, made.health)
        scheduled.start()
        try:
            others = [name for name, policy in PLAN.items() if policy.kind != "live" and name != VICTIM]

            def complete() -> bool:
                with made.mirror_db.read() as connection:
                    return all(collection_state.get_state(connection, name).complete_at for name in others)

            report.check(until(complete), f"{fault} on /{VICTIM} alone: all else is read")
            standing = made.platform.budget.state()
            report.check(standing.open_since is None, f"{fault} on /{VICTIM} alone: the rest is asked freely")
            with made.mirror_db.read() as connection:
                state = collection_state.get_state(connection, VICTIM)
            report.check(bool(state.last_error), f"{fault} on /{VICTIM} alone: it says why")
            off = made.health.report()["facts"].get("collections_off", [])
            report.check((off == [VICTIM]) == ("403" in fault), f"{fault} on /{VICTIM} alone: off is {off}")
        finally:
            scheduled.stop()


# --- a day away --------------------------------------------------------------------------------------


class _Time:
    """The product's clocks and the simulator's, which are the same, moved on by hand."""

    def __init__(self) -> None:
        self._unix, self._monotonic = clock.unix, clock.monotonic
        self.passed = 0.0

    def __enter__(self) -> _Time:
        clock.unix = lambda: self._unix() + self.passed
        clock.monotonic = lambda: self._monotonic() + self.passed
        return self

    def __exit__(self, *_: object) -> None:
        clock.unix, clock.monotonic = self._unix, self._monotonic


def day(arguments: list[str]) -> int:
    options = parse_options("day", arguments)
    report = Report("day")
    with _Time() as moved, open_simulated_trial(options) as made:
        scheduled = ScheduledJobs(made.settings, made.mirror_db, made.platform, made.calls, made.health)
        if options.seed_bug:
            _rest_for_ever(made, moved)
        scheduled.start()
        try:
            report.check(until(made.complete), "a first reading of everything")
            made.faults("status=503")
            made.simulator.context.request_log.clear()
            begun = clock.unix()
            came = 0
            while moved.passed < DAY:
                moved.passed += STEP
                add_cdrs(made, 2)
                came += 2
                _let_jobs_run(scheduled)
            asked = made.asked()
            minutes = (clock.unix() - begun) / 60
            worst, count = (asked.most_common(1) or [("", 0)])[0]
            report.check(
                count <= minutes, f"at most a request a minute: {count} to {worst} in {minutes:.0f} min"
            )
            made.faults("")
            back, real = clock.unix(), time.monotonic()
            caught = until(
                lambda: _minute(moved, scheduled) and made.differing() == [], 10 if options.seed_bug else 240
            )
            took = (clock.unix() - back) / 60
            report.check(
                caught and took <= 10, f"all is here {took:.1f} min after; {made.differing()} differ"
            )
            with made.mirror_db.read() as connection:
                twice = connection.execute("SELECT count(*) - count(DISTINCT id) FROM cdrs").fetchone()[0]
            report.check(twice == 0, "nothing is here twice")
            progress = Progress(lambda _facts: None, lambda: True)
            result = verify.verify_completeness(made.parts, {"resources": list(PLAN)}, progress)
            open_ = [one["collection"] for one in result["proofs"] if one["error"] or one["gaps"]]
            report.check(result["complete"], f"the ledger is proved, not {open_}")
        finally:
            scheduled.stop()
    about = (
        f"{came} calls in 24 h away, {sum(asked.values())} requests meanwhile, at most {count} to one path; "
        f"equal {took:.1f} min after ({time.monotonic() - real:.0f} s of the trial)"
    )
    found = bool(report.broken)
    return report.end(about) if not options.seed_bug else int(not found)


def _rest_for_ever(made: MirrorTrial, moved: _Time) -> None:
    """From the outage on CDRs are never asked for again, nor is an answer taken that was waited for then."""
    real = made.platform.page

    def page(collection: str, *arguments: Any, **options: Any) -> Any:
        found = real(collection, *arguments, **options) if collection != "cdrs" or not moved.passed else None
        if collection == "cdrs" and moved.passed:
            raise CircuitOpen("it rests")
        return found

    made.platform.page = page  # type: ignore[method-assign]


def _let_jobs_run(scheduled: ScheduledJobs) -> None:
    """Ten minutes have passed: what is due by its rests runs."""
    scheduled.scheduler.run_all_now()
    threading.Event().wait(0.05)


def _minute(moved: _Time, scheduled: ScheduledJobs) -> bool:
    """A third of a minute more since the platform came back."""
    moved.passed += 20
    scheduled.scheduler.run_all_now()
    return until(lambda: _idle(scheduled))


def _idle(scheduled: ScheduledJobs) -> bool:
    """No job is due or under way."""
    scheduler, now = scheduled.scheduler._apscheduler, datetime.now(UTC)
    due = any(job.next_run_time and job.next_run_time <= now for job in scheduler.get_jobs())
    return not due and not any(sum(pool._instances.values()) for pool in scheduler._executors.values())
