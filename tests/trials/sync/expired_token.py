"""Trial of platform tokens that expire, and of refused logins."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformError
from integration.simulator import embed
from integration.simulator.records.people import Person
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.trials.tools.local_product import LocalProduct, count_requests
from tests.trials.trial import Trial

DAYS = 10
LOGINS = {"a wrong password": 3, "a second factor": 1}
"""Logins in DAYS days that the platform refuses."""


class ExpiredToken(Trial):
    """An expired token causes one login; refused logins are not repeated.

    Disturbed: the token expires during a sync of everything, at each tenth request in turn (`--every`); then
    the password is wrong, or the user requires a second factor, for ten days.
    Checked: the mirror equals the platform with one more login; a wrong password is sent
    three times, that of a user with a second factor once, and the reason is reported.
    Detects: a refused login that is repeated.
    """

    name = "token"
    size_option, size = "--cdrs", 300
    bugs, symptoms = ("repeat_refused_login",), ("refused logins",)
    promises = ("P11",)
    long = ("--every 1",)

    def boot(self) -> None:
        self.simulator = self.embed_simulator(self.options.size)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--every", type=int, default=10, help="requests from one expiry to the next")

    def load(self) -> None:
        """Let the token expire at one request of a sync, and at a later one in the next."""
        faults, turn, requests = self.simulator.context.faults, 1, 1
        draw = faults.draw

        def expire(method: str, path: str, **options: Any) -> Any:
            nonlocal requests
            if path != "/login":
                requests += 1
                if requests == turn:
                    faults.add("expire-token*1")
            return draw(method, path, **options)

        self.patch(faults, "draw", expire)
        while requests >= turn and not self.is_seeded:
            turn, requests = turn + self.options.every, 0
            with self.build_product(self.simulator, **_make_settings(self.simulator.admin)) as product:
                self.simulator.context.request_log.clear()
                for policy in PLAN.values():
                    if policy.kind != "live":
                        _sync_patiently(product, policy)
                logins = count_requests(self.simulator)["/login"]
                differing = product.list_differing(self.simulator)
            faults.clear()
            where = f"expired at request {turn}"
            self.verify(differing == [], f"{where}: the mirror is complete, except {differing}")
            self.verify(logins <= 2, f"{where}: two logins at most, not {logins}")
        self.figures.append(f"expired at one of {requests} requests")

    def disturb(self) -> None:
        admin, other = self.simulator.admin, self.simulator.two_factor_user
        logins = {
            "a wrong password": self._log_in_for_days(self.simulator, admin, "not the password", "paused"),
            "a second factor": self._log_in_for_days(self.simulator, other, other.password, "second factor"),
        }
        self.verify(logins == LOGINS, f"refused logins in {DAYS} days are {LOGINS}, not {logins}")
        self.figures.append(f"in {DAYS} days refused logins: {logins}")

    def _log_in_for_days(self, simulator: embed.Simulator, user: Person, password: str, reason: str) -> int:
        """Sync for DAYS days. Returns the number of logins."""
        simulator.context.request_log.clear()
        passed, monotonic = [0.0], clock.monotonic
        self.patch(clock, "monotonic", lambda: monotonic() + passed[0])
        with self.build_product(simulator, **_make_settings(user, password)) as product:
            for day in range(DAYS):
                passed[0] = day * 86_400.0
                with suppress(PlatformError):
                    run_full_sync(product.context, PLAN["me"])
            problem = str(product.context.platform.problem)
            self.verify(reason in problem, f"the problem contains {reason!r}, not {problem!r}")
            return count_requests(simulator)["/login"]


def _sync_patiently(product: LocalProduct, policy: Any) -> None:
    """Run a full sync, and another one if a request failed."""
    try:
        run_full_sync(product.context, policy)
    except PlatformError:
        with suppress(PlatformError):
            run_full_sync(product.context, policy)


def _make_settings(user: Person, password: str | None = None) -> dict[str, str]:
    return {
        "platform__email": user.email,
        "platform__password": user.password if password is None else password,
    }
