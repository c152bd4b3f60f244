"""Simulator inside the current process, `start(seed=1).url`, or as a process of its own."""

from __future__ import annotations

import gc
import signal
import threading
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from integration.core import clock
from integration.simulator.calls.history import seed_history
from integration.simulator.calls.office_hours import OfficeHours, make_busy_hours
from integration.simulator.calls.player import Player
from integration.simulator.calls.traffic import Traffic
from integration.simulator.calls.traffic_generator import TrafficGenerator
from integration.simulator.calls.webhooks import RETRY_GAPS, WebhookSender
from integration.simulator.calls.world import World
from integration.simulator.context import SimulatorContext
from integration.simulator.http.faults import ActiveFaults
from integration.simulator.http.transport import SimulatorServer
from integration.simulator.records.authentication import TOKEN_IDLE_SECONDS, LoginService
from integration.simulator.records.people import Person
from integration.simulator.server import create_app

_SIGNAL_POLL_SECONDS = 0.5
"""Maximum seconds from a signal to the stop."""


@dataclass(frozen=True, slots=True)
class Simulator:
    """Running simulator.

    `url` is the value for `platform.base_url`, `control_url` the root of `/_simulator`.
    """

    context: SimulatorContext
    server: SimulatorServer

    @property
    def url(self) -> str:
        return f"{self.base_origin}/v1.2"

    @property
    def base_origin(self) -> str:
        return f"http://{self.server.host}:{self.server.port}"

    @property
    def control_url(self) -> str:
        return f"{self.base_origin}/_simulator"

    @property
    def admin(self) -> Person:
        """Administrator of the account, with `.id`, `.email`, `.password` and `.api_key`."""
        return self.context.world.admin

    @property
    def ordinary_user(self) -> Person:
        """User without administrator rights, who can read only their own records."""
        return self.context.world.ordinary_user

    @property
    def two_factor_user(self) -> Person:
        """User whose login requires a second factor."""
        return next(person for person in self.context.world.people if person.has_two_factor)

    @property
    def world(self) -> World:
        return self.context.world

    def stop(self) -> None:
        """Stop traffic, webhooks and all connections within about 2 s."""
        self.context.traffic.stop()
        self.server.stop()
        self.context.webhook_sender.stop()


def start(
    *,
    seed: int = 1,
    host: str = "127.0.0.1",
    port: int = 0,
    cdrs: int = 200,
    start_at: float | None = None,
    time_zone: str = "UTC",
    live: bool = False,
    office_day: bool = False,
    assigned_mobiles: bool = False,
    speed: float = 1.0,
    webhook: str | None = None,
    webhook_gaps: tuple[float, ...] = RETRY_GAPS,
    faults: str = "",
    token_idle: float = TOKEN_IDLE_SECONDS,
) -> Simulator:
    """Start a simulator and return it as soon as it accepts requests.

    `start_at`: Unix time at which the seeded history ends, default now.
    `time_zone`: time zone of the account's office hours.
    `live`: generate calls, SMS and other events automatically.
    `office_day`: the account is a busy office, today is a working day, live calls have the rate of the
    history, and a story of calls repeats.
    `assigned_mobiles`: callers and contacts have mobile numbers of an assigned range, not those for fiction.
    Raises faults.InvalidFaultSpec and OSError (port in use).
    """
    active_faults = ActiveFaults(seed, faults)
    start_at = clock.unix() if start_at is None else start_at
    zone = ZoneInfo(time_zone)
    office_hours = make_busy_hours(zone, start_at) if office_day else OfficeHours(zone)
    world = World(seed, start_at, office_hours, has_assigned_mobiles=assigned_mobiles)
    _seed_without_gc(world, cdrs)
    sender = WebhookSender(active_faults, url=webhook, seed=seed, retry_gaps=webhook_gaps)
    traffic = Traffic(world, Player(world, lambda event, _: sender.send(event)), speed)
    context = SimulatorContext(
        world=world,
        login_service=LoginService(world, seed, token_idle),
        faults=active_faults,
        webhook_sender=sender,
        traffic=traffic,
        traffic_generator=TrafficGenerator(
            traffic, office_hours.expect_calls_per_hour if office_day else None, has_story=office_day
        ),
    )
    server = SimulatorServer(host, port, create_app(context))
    server.serve_in_thread()
    sender.start()
    if live:
        context.traffic_generator.start()
    traffic.start()
    return Simulator(context, server)


def _seed_without_gc(world: World, cdrs: int) -> None:
    """Seed the history without garbage collection.

    Seeding creates many objects and frees few, so garbage collection would take a third of its time.
    """
    was_gc_enabled = gc.isenabled()
    gc.disable()
    try:
        seed_history(world, cdrs)
    finally:
        if was_gc_enabled:
            gc.enable()


def run(**options: Any) -> None:
    """Run a simulator until SIGTERM or SIGINT.

    `options` are those of `start`. The URL and the credentials of two users are printed on standard
    output.
    """
    stop_requested = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop_requested.set())
    simulator = start(**options)
    admin, ordinary = simulator.admin, simulator.ordinary_user
    print(f"Simulator: {simulator.url}")
    print(f"Administrator: {admin.email}")
    print(f"Password: {admin.password}")
    print(f"User id: {admin.id}")
    print(f"API key: {admin.api_key}")
    print(f"Ordinary user: {ordinary.email} {ordinary.password} {ordinary.id} {ordinary.api_key}", flush=True)
    # With a time limit: the handler runs on this thread, which a signal to another thread does not wake.
    while not stop_requested.wait(_SIGNAL_POLL_SECONDS):
        pass
    simulator.stop()
