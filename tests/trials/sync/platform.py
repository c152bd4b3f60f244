"""Promises P11 and P12: the platform fails in every way it may, and the mirror ends equal to it.

    token    P11  the token dies at random requests: equal, one login for each; a wrong password is tried
                  thrice, one that is not enough once
    away     P12  an outage of each kind: at most a request a minute and collection, then all caught up

The sync jobs run over real HTTP against the simulator. Time is moved, not waited for.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformError
from integration.core.health import Health
from integration.mirror import hooks
from integration.mirror.calls.store import CallStore
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state
from integration.platform_api import login, retry
from integration.platform_api.client import Platform
from integration.settings.model import load
from integration.simulator import embed
from integration.simulator.records.people import Person
from integration.sync import jobs
from integration.sync.context import StandaloneSyncContext
from integration.sync.plan import PLAN, Policy
from integration.sync.reading.full_sync import run_full_sync
from tests.support.applications.scheduled_jobs import ScheduledJobs

FRIDAY, WEEK = 86_400.0 + 20 * 3600, 7 * 86_400.0
"""The first Friday's evening of Unix time, and how long it is to the next."""

OUTAGES = ("status=503", "html", "status=429/30", "status=500", "malformed=json", "malformed=headers")
SKIPPED = {"calls", "me"}


class MirrorTrial:
    """A mirror and its sync jobs over a simulated platform."""

    def __init__(self, folder: Path, simulator: embed.Simulator, **settings: str) -> None:
        self.simulator = simulator
        admin = simulator.admin
        environment = {
            "SWITCHROOM_PLATFORM__BASE_URL": simulator.url,
            "SWITCHROOM_PLATFORM__TIMEOUT": "20",
            "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
            "SWITCHROOM_SYNC__RECENT_INTERVAL": "1",
            "SWITCHROOM_SYNC__LIVE_INTERVAL": "60",
            "SWITCHROOM_RECORDINGS__DOWNLOAD": "false",
            "SWITCHROOM_VOICEMAIL__DOWNLOAD": "false",
            **settings,
        }
        if "SWITCHROOM_PLATFORM__EMAIL" not in settings:
            environment["SWITCHROOM_PLATFORM__USER_ID"] = str(admin.id)
            environment["SWITCHROOM_PLATFORM__API_KEY"] = admin.api_key
        self.settings = load(None, environment)
        self.mirror_db = open_mirror(folder / "mirror.db")
        self.calls = CallStore()
        hooks.register_hooks(self.mirror_db, self.calls)
        self.health = Health()
        self.platform = Platform(self.settings.platform, requests_per_minute=60_000)
        self.parts = StandaloneSyncContext(
            self.settings, self.mirror_db, self.platform, self.health, self.calls
        )

    def close(self) -> None:
        self.platform.close()
        self.mirror_db.close()

    def here(self, collection: str) -> set[str]:
        key = PLAN[collection].resource.key
        table = PLAN[collection].resource.table
        with self.mirror_db.read() as connection:
            rows = connection.execute(f'SELECT "{key}" FROM "{table}" WHERE _missing_since IS NULL')
            return {str(row[0]) for row in rows}

    def there(self, collection: str) -> set[str]:
        with self.simulator.world.lock:
            records = list(self.simulator.world.collections[collection].records.values())
        return {str(record[PLAN[collection].resource.key]) for record in records}

    def differing(self) -> list[str]:
        """Collections with keys that are not as the platform has them."""
        keyed = [name for name, policy in PLAN.items() if policy.resource.key and name not in SKIPPED]
        return self.differing_in(keyed)

    def differing_in(self, collections: Sequence[str]) -> list[str]:
        return [name for name in collections if self.here(name) != self.there(name)]

    def complete(self) -> bool:
        with self.mirror_db.read() as connection:
            return all(
                collection_state.get_state(connection, n).complete_at
                for n, p in PLAN.items()
                if p.kind != "live"
            )

    def faults(self, spec: str) -> None:
        self.simulator.context.faults.clear()
        self.simulator.context.faults.add(spec)

    def asked(self) -> Counter[str]:
        return Counter(entry["path"] for entry in list(self.simulator.context.request_log))


def friday_evening() -> float:
    """The last one (Unix seconds), where the histories of trials end. The days before a Monday morning have a
    few calls, those before a Friday evening hundreds: what is found must not depend on when a trial runs."""
    now = clock.unix()
    return now - (now - FRIDAY) % WEEK


@contextmanager
def run_simulator(options: argparse.Namespace) -> Iterator[embed.Simulator]:
    simulator = embed.start(seed=options.seed, cdrs=options.cdrs, start_at=friday_evening())
    try:
        yield simulator
    finally:
        simulator.stop()


@contextmanager
def open_mirror_trial(folder: Path, simulator: embed.Simulator, **settings: str) -> Iterator[MirrorTrial]:
    folder.mkdir(exist_ok=True)
    made = MirrorTrial(folder, simulator, **settings)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def open_simulated_trial(options: argparse.Namespace, **settings: str) -> Iterator[MirrorTrial]:
    with (
        run_simulator(options) as simulator,
        tempfile.TemporaryDirectory() as folder,
        open_mirror_trial(Path(folder), simulator, **settings) as made,
    ):
        yield made


def parse_options(name: str, arguments: list[str], cdrs: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m tests.trials {name}")
    parser.add_argument("--cdrs", type=int, default=cdrs, help="calls at the platform")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="that each outage lasts; the product reckons 20 times as long",
    )
    parser.add_argument("--long", action="store_true", help="every kind of outage, ten times as long")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    return parser.parse_args(arguments)


def until(condition: Callable[[], Any], seconds: float = 240.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.05)
    return True


class Report:
    """What was promised and did not hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken: list[str] = []

    def check(self, held: bool, promise: str) -> None:
        if not held:
            self.broken.append(promise)
            print(f"{self.name}: BROKEN: {promise}")

    def end(self, about: str) -> int:
        print(f"{self.name}: {'failed' if self.broken else 'passed'}; {about}")
        return 1 if self.broken else 0


# --- P11 ---------------------------------------------------------------------------------------------


def token(arguments: list[str]) -> int:
    options = parse_options("token", arguments, cdrs=300)
    report = Report("token")
    with run_simulator(options) as simulator, tempfile.TemporaryDirectory() as folder:
        simulator.context.faults.add("expire-token:0.1")
        with open_mirror_trial(Path(folder, "right"), simulator, **_by_password(simulator.admin)) as made:
            for policy in PLAN.values():
                if policy.kind != "live":
                    _patiently(made, policy)
            logins, died = (
                made.asked()["/login"],
                int(str(simulator.context.faults.list_all()[0]["happened"])),
            )
            report.check(made.differing() == [], f"the mirror equals the platform, not {made.differing()}")
            report.check(logins <= died + 1, f"one login for each of {died} expired tokens, not {logins}")
        simulator.context.faults.clear()
        most, login.MAX_REFUSED_LOGINS = (
            login.MAX_REFUSED_LOGINS,
            10**6 if options.seed_bug else login.MAX_REFUSED_LOGINS,
        )
        try:
            tries = {
                about: _refused(Path(folder, about), simulator, who, said, report)
                for about, who, said in (
                    ("a wrong password", _by_password(simulator.admin, "not the password"), "paused"),
                    ("a second factor", _by_password(simulator.two_factor_user), "second factor"),
                )
            }
        finally:
            login.MAX_REFUSED_LOGINS = most
        report.check(tries == {"a wrong password": 3, "a second factor": 1}, f"logins in ten days: {tries}")
    found = bool(report.broken)
    told = ", ".join(f"{count} with {about}" for about, count in tries.items())
    about = f"{died} tokens died, {logins} logins; in ten days {told}"
    return report.end(about) if not options.seed_bug else int(not found)


def _refused(folder: Path, simulator: embed.Simulator, who: dict[str, str], said: str, report: Report) -> int:
    """How often ten days of asking log in where the platform wants none of it."""
    simulator.context.request_log.clear()
    monotonic = clock.monotonic
    try:
        with open_mirror_trial(folder, simulator, **who) as made:
            for day in range(10):
                clock.monotonic = lambda day=day: monotonic() + day * 86_400.0
                with suppress(PlatformError):
                    run_full_sync(made.parts, PLAN["me"])
            told = str(made.platform.problem)
            report.check(said in told, f"people are told of it: {said}, not {told}")
            return made.asked()["/login"]
    finally:
        clock.monotonic = monotonic


def _patiently(made: MirrorTrial, policy: Policy) -> None:
    for _ in range(20):
        with suppress(PlatformError):
            run_full_sync(made.parts, policy)
            return


def _by_password(person: Person, password: str | None = None) -> dict[str, str]:
    return {
        "SWITCHROOM_PLATFORM__EMAIL": person.email,
        "SWITCHROOM_PLATFORM__PASSWORD": person.password if password is None else password,
    }


# --- P12 ---------------------------------------------------------------------------------------------


def away(arguments: list[str]) -> int:
    options = parse_options("away", arguments, cdrs=150)
    report, told = Report("away"), []
    seconds = options.seconds * (10 if options.long else 1)
    for fault in OUTAGES if options.long else OUTAGES[:2]:
        with open_simulated_trial(options, SWITCHROOM_PLATFORM__TIMEOUT="120") as made, minutes_as_seconds():
            scheduled = ScheduledJobs(made.settings, made.mirror_db, made.platform, made.calls, made.health)
            if options.seed_bug:
                scheduled.sync_jobs.backoff.is_paused = lambda _collection: False  # type: ignore[method-assign]
            scheduled.start()
            try:
                report.check(until(made.complete), f"{fault}: a first walk of everything")
                made.faults(fault)
                made.simulator.context.request_log.clear()
                begun = time.monotonic()
                add_cdrs(made, 30)
                threading.Event().wait(seconds)
                minutes = (time.monotonic() - begun) * SPEED / 60
                worst, count = (made.asked().most_common(1) or [("", 0)])[0]
                report.check(
                    count <= minutes + 4, f"{fault}: {count} requests to {worst} in {minutes:.0f} min"
                )
                add_cdrs(made, 30)
                made.faults("")
                back = time.monotonic()
                caught = until(lambda: made.differing() == [], 30)
                took = (time.monotonic() - back) * SPEED / 60
                report.check(
                    caught and took <= 10, f"{fault}: {took:.1f} min after {made.differing()} differ"
                )
                told.append(f"{fault}: {count} requests in {minutes:.0f} min, {took:.1f} min to catch up")
            finally:
                scheduled.stop()
    found = bool(report.broken)
    return report.end("; ".join(told)) if not options.seed_bug else int(not found)


SPEED = 20.0
"""Seconds of the product in one of the trial."""


@contextmanager
def minutes_as_seconds() -> Iterator[None]:
    """The product's clocks run SPEED times as fast, all but the scheduler's own."""
    unix, monotonic = clock.unix, clock.monotonic
    wall, still = unix(), monotonic()
    first = retry.GAPS
    clock.unix = lambda: wall + (unix() - wall) * SPEED
    clock.monotonic = lambda: still + (monotonic() - still) * SPEED
    check, retry.GAPS = jobs.FULL_SYNC_CHECK_SECONDS, (0.01,)
    jobs.FULL_SYNC_CHECK_SECONDS = 0.3
    try:
        yield
    finally:
        clock.unix, clock.monotonic = unix, monotonic
        jobs.FULL_SYNC_CHECK_SECONDS, retry.GAPS = check, first


# --- time and new calls ---------------------------------------------------------------------------------


@contextmanager
def movable_clock() -> Iterator[Callable[[float], None]]:
    """`later(5)`: five seconds pass."""
    unix, moved = clock.unix, 0.0

    def later(seconds: float) -> None:
        nonlocal moved
        moved += seconds

    clock.unix = lambda: unix() + moved
    try:
        yield later
    finally:
        clock.unix = unix


def add_cdrs(made: MirrorTrial, count: int) -> None:
    """More CDRs at the platform, dated now."""
    cdrs = made.simulator.world.collections["cdrs"]
    with made.simulator.world.lock:
        pattern = dict(list(cdrs.records.values())[-1])
        for _ in range(count):
            number, leg = made.simulator.world.new_id("cdrs"), made.simulator.world.new_id("calls")
            cdrs.add(
                {**pattern, "id": number, "live_id": leg, "root_live_id": leg, "calldate": clock.utc_text()}
            )
