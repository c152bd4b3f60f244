"""Product in the process of a trial, with a moved clock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from integration import factory
from integration.access import people, sessions
from integration.core import scheduler
from integration.core.commands import Progress
from integration.settings.model import load
from integration.simulator import embed
from integration.simulator.http.transport import SimulatorServer
from integration.sync.commands import sync
from integration.sync.plan import PLAN, list_full_sync_policies
from tests.support.harness import make_environment, wait_for
from tests.trials.tools.moved_clock import MovedClock, observe_scheduler

CALL_TIMERS = "call timers"
"""Job that ends calls and detects changes of the wall clock."""


NOT_COMPARED = {"calls", "me"}


class LocalProduct:
    """The product; after `start` with jobs, its receiver and its pages at `origin`.

    `moved` is the clock of `advance` and `set_wall`.
    """

    def __init__(
        self,
        folder: Path,
        base_url: str,
        user_id: str,
        api_key: str,
        *,
        moved: MovedClock | None = None,
        **settings: str,
    ) -> None:
        own = {
            "sync__max_requests_per_minute": "100000",
            "recordings__download": "false",
            "voicemail__download": "false",
            "backup__every_hours": "0",
        }
        environment = make_environment(folder, base_url, user_id, api_key, **own | settings)
        if "platform__email" in settings:
            del environment["SWITCHROOM_PLATFORM__USER_ID"], environment["SWITCHROOM_PLATFORM__API_KEY"]
        self.folder = folder
        self.moved = moved or MovedClock()
        self.credentials = (user_id, api_key)
        with observe_scheduler() as schedulers:
            self.product = factory.Product(load(None, environment))
        (self._jobs,) = schedulers
        self.context = self.product.context
        self.mirror_db, self.app_db = self.context.mirror_db, self.context.app_db
        self._server: SimulatorServer | None = None

    def start(self) -> None:
        self._user = people.create(self.app_db, "admin@example.com", "admin", password_hash="x")
        self._server = SimulatorServer("127.0.0.1", 0, self.product.application)
        self._server.serve_in_thread()
        self.origin = f"http://127.0.0.1:{self._server.port}"
        self.webhook_url = f"{self.origin}/webhooks/{(self.folder / 'webhook-secret').read_text().strip()}"
        self.product.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self.product.stop()

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.mirror_db.read() as connection:
            return [tuple(row) for row in connection.execute(sql, values)]

    def query_value(self, sql: str, *values: object) -> Any:
        return self.query(sql, *values)[0][0]

    def list_failing(self, state: str, excluded: Iterable[str] = ()) -> list[str]:
        """Health checks in a state, except `excluded`, with their errors."""
        checks = self.product.health.report()["checks"]
        return [
            f"{name} {state}: {one['error']}"
            for name, one in checks.items()
            if one["state"] == state and name not in excluded
        ]

    def list_differing(self, simulator: embed.Simulator) -> list[str]:
        """Collections whose keys differ from those of the platform."""
        differing = []
        for name, policy in PLAN.items():
            key = policy.resource.key
            if not key or name in NOT_COMPARED:
                continue
            sql = f'SELECT "{key}" FROM "{policy.resource.table}" WHERE _missing_since IS NULL'
            with simulator.world.lock:
                expected = {str(one[key]) for one in simulator.world.collections[name].records.values()}
            if {str(row[0]) for row in self.query(sql)} != expected:
                differing.append(name)
        return differing

    def await_initial_sync(self) -> None:
        sql, total = "SELECT count(*) FROM _walks WHERE complete_at > ''", len(list_full_sync_policies())
        wait_for(lambda: self.query_value(sql) >= total, "the initial sync", 240)
        self.settle()

    def advance(self, seconds: float) -> None:
        """Let time pass, and wait for the jobs that are due."""
        with self._jobs.gate:
            wait_for(lambda: not self._jobs.running_jobs, "the end of all jobs", 240)
            self.moved.advance(seconds)
        self.settle()

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock, and wait until the product has noticed."""
        with self._jobs.gate:
            wait_for(lambda: not self._jobs.running_jobs, "the end of all jobs", 240)
            self.moved.set_wall(seconds)
        threading.Event().wait(2 * scheduler.CLOCK_CHECK_SECONDS)
        self.settle()

    def settle(self, *jobs: str) -> None:
        """Wait until there is no work, then run `jobs` and the timers.

        There is no work once every webhook is applied and no job is due or running.
        """
        wait_for(self._is_idle, "the end of all jobs", 240)
        for job in (*jobs, CALL_TIMERS):
            self.product.scheduler.nudge(job)
        wait_for(self._is_idle, "the end of all jobs", 240)

    def sync_all(self, *collections: str) -> list[dict[str, Any]]:
        """Run a full sync of `collections`, or of all but live calls.

        Returns a row of the summary for each collection.
        """
        self.moved.advance(2)
        names = [*collections] or [name for name in PLAN if name != "calls"]
        arguments = {"resources": names, "full": True, "files": False}
        progress = Progress(lambda _facts: None, lambda: True)
        rows: list[dict[str, Any]] = sync(self.context, arguments, progress)["rows"]
        return rows

    def login(self) -> requests.Session:
        """Return the browser session of an administrator."""
        browser = requests.Session()
        browser.trust_env = False
        host = urlsplit(self.origin).hostname or ""
        browser.cookies.set("session", sessions.create(self.app_db, self._user.id), domain=host)
        return browser

    def _is_idle(self) -> bool:
        return self._jobs.is_idle and not self.context.inbox.list_unapplied(self.mirror_db.path)


def count_requests(simulator: embed.Simulator) -> Counter[str]:
    """Requests by path."""
    return Counter(entry["path"] for entry in list(simulator.context.request_log))
