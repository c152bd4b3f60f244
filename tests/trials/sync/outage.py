"""Trial of an outage of the platform."""

from __future__ import annotations

import argparse
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from requests import PreparedRequest, Response

from integration.core import clock
from integration.core.commands import Progress
from integration.outbound.adapter import PoolAdapter
from integration.sync.plan import PLAN
from integration.sync.reading import verify_coverage
from tests.trials.long_form import LongForm
from tests.trials.tools.local_mirror import LocalMirror
from tests.trials.trial import Trial, until

DAY_FAULTS = ("status=503", "html", "status=429/30", "malformed=json", "refused", "dns")
DAY = 86_400.0
STEP = 600.0
"""Seconds by which the clocks of the trial `day` advance."""
MAX_MINUTES = 10
"""Minutes after an outage in which the mirror must equal the platform."""


class Connections:
    """Failing connections: `refused`, or `dns` for a name that cannot be resolved.

    `requests` has the number of requests by path. The platform sees none of them.
    """

    def __init__(self) -> None:
        self.requests = Counter[str]()

    @contextmanager
    def fail(self, kind: str) -> Iterator[None]:
        def resolve(*_arguments: object, **_options: object) -> list[tuple[object, ...]]:
            if kind == "dns":
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            # No server listens on the discard port.
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]

        send = PoolAdapter.send

        def count(adapter: PoolAdapter, request: PreparedRequest, **options: Any) -> Response:
            self.requests[urlsplit(request.url or "").path] += 1
            return send(adapter, request, **options)

        with (
            mock.patch.object(socket, "getaddrinfo", resolve),
            mock.patch.object(PoolAdapter, "send", count),
        ):
            yield


@contextmanager
def fail_platform(mirror: LocalMirror, fault: str) -> Iterator[Callable[[], tuple[str, int]]]:
    """Let the platform fail.

    Yields a function that returns the path with most requests, and their number.
    """
    connections, is_connection = Connections(), fault in ("refused", "dns")
    # Open connections end with the next response.
    mirror.set_fault("malformed=headers" if is_connection else fault)
    mirror.simulator.context.request_log.clear()

    def count_most() -> tuple[str, int]:
        requests = connections.requests if is_connection else mirror.count_requests()
        return (requests.most_common(1) or [("", 0)])[0]

    try:
        with connections.fail(fault) if is_connection else nullcontext():
            yield count_most
    finally:
        mirror.set_fault("")


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
    long = LongForm(
        promises=("P12",),
        rounds=tuple(f"--fault {fault}" for fault in DAY_FAULTS),
        minutes=5,
        remains="the clock is moved in steps of ten minutes",
        expectation="simulator: its records at that time",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--fault", default="status=503", help=f"such as {', '.join(DAY_FAULTS)}")

    def disturb(self) -> None:
        self.passed, unix, monotonic = 0.0, clock.unix, clock.monotonic
        self.patch(clock, "unix", lambda: unix() + self.passed)
        self.patch(clock, "monotonic", lambda: monotonic() + self.passed)
        mirror = self.mirror = self.cleanup.enter_context(self.open_simulated_mirror(self.options.size))
        self.jobs, self.scheduler = self.cleanup.enter_context(mirror.run_jobs())
        self.verify_soon(mirror.is_complete, "the initial sync ends")
        with fail_platform(mirror, self.options.fault) as count_most:
            begun, added = clock.unix(), 0
            while self.passed < DAY:
                self.passed += STEP
                mirror.add_cdrs(2)
                added += 2
                self.jobs.scheduler.run_all_now()
                threading.Event().wait(0.05)
            minutes = (clock.unix() - begun) / 60
            path, count = count_most()
        self.verify(count <= minutes, f"at most a request a minute: {count} to {path} in {minutes:.0f} min")
        self.sums = {"simulated days": 1, "CDRs added": added}
        self.highest = {"requests to a path in a day": count}
        self.figures.append(
            f"{self.options.fault}: {added} CDRs in 24 h offline, at most {count} requests to {path}"
        )

    def check(self) -> None:
        mirror = self.mirror
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
        self.highest["minutes until equal"] = round(took, 1)
        self.figures.append(f"equal after {took:.1f} min")
