"""The whole product in this process, its clocks moved by hand: hours pass in seconds, and in their order.

`Time` moves the clocks of product and simulator, which are the same, and the scheduler's; each job runs when
it is due by them, not sooner. `OfficeProfile` is the product with its receiver and its pages on a port.
"""

from __future__ import annotations

import datetime as calendar
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import requests
from apscheduler.executors import base as executors
from apscheduler.schedulers import base as schedulers

from integration import factory
from integration.access import people, sessions
from integration.core import clock, scheduler
from integration.settings.model import load
from integration.simulator import embed
from integration.simulator.http.transport import SimulatorServer
from integration.sync.plan import list_full_sync_policies

LOOK_SECONDS = 0.02
"""How often the scheduler looks whether something is due by the moved clock."""
SCHEDULED: tuple[ModuleType, ...] = (schedulers, executors, scheduler)


class Time:
    """A context in which time passes as it is told to, besides passing by itself."""

    def __init__(self) -> None:
        self._unix, self._monotonic = clock.unix, clock.monotonic
        self.passed = 0.0
        self.jumped = 0.0
        self.gate = threading.Lock()
        """Held, no job begins: one that waits for an answer must not find that an hour has passed."""
        self._undo = ExitStack()

    def pass_(self, seconds: float) -> None:
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set, forward or back."""
        self.jumped += seconds

    def __enter__(self) -> Time:
        moved = self

        class Moved(calendar.datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) + calendar.timedelta(seconds=moved.passed + moved.jumped)

        process = schedulers.BaseScheduler._process_jobs

        def look(scheduler: Any) -> float:
            with self.gate:
                due = process(scheduler)
            return LOOK_SECONDS if due is None else min(due, LOOK_SECONDS)

        def unix() -> float:
            return self._unix() + self.passed + self.jumped

        def monotonic() -> float:
            return self._monotonic() + self.passed

        patches = [mock.patch.object(module, "datetime", Moved) for module in SCHEDULED]
        patches.append(mock.patch.object(schedulers.BaseScheduler, "_process_jobs", look))
        patches += [mock.patch.object(clock, "unix", unix), mock.patch.object(clock, "monotonic", monotonic)]
        for patch in patches:
            self._undo.enter_context(patch)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()


class Office:
    """The product, running. `origin` is where it answers."""

    def __init__(self, folder: Path, moved: Time, base_url: str, user_id: str, api_key: str) -> None:
        environment = {
            "SWITCHROOM_PLATFORM__BASE_URL": base_url,
            "SWITCHROOM_PLATFORM__USER_ID": user_id,
            "SWITCHROOM_PLATFORM__API_KEY": api_key,
            "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
            "SWITCHROOM_SYNC__MAX_REQUESTS_PER_MINUTE": "100000",
            "SWITCHROOM_RECORDINGS__DOWNLOAD": "false",
            "SWITCHROOM_VOICEMAIL__DOWNLOAD": "false",
            "SWITCHROOM_BACKUP__EVERY_HOURS": "0",
        }
        self.moved = moved
        self.product = factory.build(load(None, environment))
        self.mirror_db, self.app_db = self.product.context.mirror_db, self.product.context.app_db
        self.person = people.create(self.app_db, "admin@example.com", "admin", password_hash="x")
        self._server = SimulatorServer("127.0.0.1", 0, self.product.application, None)
        self._server.serve_in_thread()
        self.origin = f"http://127.0.0.1:{self._server.port}"
        self.webhooks = f"{self.origin}/webhooks/{(folder / 'webhook-secret').read_text().strip()}"
        self.product.start()

    def stop(self) -> None:
        self._server.stop()
        self.product.stop()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.mirror_db.read() as connection:
            return [tuple(row) for row in connection.execute(sql, values)]

    def one(self, sql: str, *values: object) -> Any:
        return self.rows(sql, *values)[0][0]

    def read_once(self) -> None:
        """Wait until everything was read completely."""
        sql, many = "SELECT count(*) FROM _walks WHERE complete_at > ''", len(list_full_sync_policies())
        self._until(lambda: self.one(sql) >= many, "a first reading of everything")
        self.settle()

    def pass_(self, seconds: float) -> None:
        """Time passes, and what falls due meanwhile is done."""
        with self.moved.gate:
            self._until(lambda: not self._working(), "jobs to end")
            self.moved.pass_(seconds)
        self.settle()

    def jump(self, seconds: float) -> None:
        """The wall clock is set, and the product has had the time it takes to see that."""
        with self.moved.gate:
            self._until(lambda: not self._working(), "jobs to end")
            self.moved.jump(seconds)
        threading.Event().wait(2 * scheduler.CLOCK_CHECK_SECONDS)
        self.settle()

    def settle(self) -> None:
        """Wait until every webhook is applied and no job is due or under way."""
        self._until(self._idle, "jobs to end")
        self.product._update_call_timers()

    def login(self) -> requests.Session:
        """An administrator at the dashboard."""
        browser = requests.Session()
        browser.trust_env = False
        host = urlsplit(self.origin).hostname or ""
        browser.cookies.set("session", sessions.create(self.app_db, self.person.id), domain=host)
        return browser

    def _idle(self) -> bool:
        clockwork = self.product.scheduler._apscheduler
        now = schedulers.datetime.now(calendar.UTC)
        due = any(job.next_run_time and job.next_run_time <= now for job in clockwork.get_jobs())
        return (
            not due
            and not self._working()
            and not self.product.context.inbox.list_unapplied(self.mirror_db.path)
        )

    def _working(self) -> bool:
        pools = self.product.scheduler._apscheduler._executors.values()
        return any(sum(pool._instances.values()) for pool in pools)

    def _until(self, condition: Any, what: str, seconds: float = 240.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {seconds} s")
            threading.Event().wait(0.01)


@contextmanager
def office_at(base_url: str, user_id: str, api_key: str, folder: Path, moved: Time) -> Iterator[Office]:
    """The product before a platform, everything read once."""
    logging.disable(logging.CRITICAL)  # What fails on purpose would fill pages.
    made = Office(folder, moved, base_url, user_id, api_key)
    try:
        made.read_once()
        yield made
    finally:
        made.stop()
        logging.disable(logging.NOTSET)


@contextmanager
def office(simulator: embed.Simulator, folder: Path, moved: Time) -> Iterator[Office]:
    """The product before `simulator`, which tells it by webhooks."""
    admin = simulator.admin
    with office_at(simulator.url, str(admin.id), admin.api_key, folder, moved) as made:
        simulator.context.webhook_sender.url = made.webhooks
        try:
            yield made
        finally:
            simulator.context.webhook_sender.url = None
