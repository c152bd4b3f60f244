"""A simulator inside this process, for tests and the demo: `start(seed=1).url`."""

from __future__ import annotations

import gc
import random
import ssl
from dataclasses import dataclass
from pathlib import Path

from integration.simulator.calls.history import seed_history
from integration.simulator.calls.player import Player
from integration.simulator.calls.traffic import Traffic
from integration.simulator.calls.traffic_generator import Bustle
from integration.simulator.calls.webhooks import GAPS, Sender
from integration.simulator.context import Machine
from integration.simulator.http.faults import Faults
from integration.simulator.http.transport import Server
from integration.simulator.records.authentication import TOKEN_IDLE, Doorman
from integration.simulator.records.people import Person
from integration.simulator.records.registrations import Desk
from integration.simulator.server import create_app
from integration.simulator.world import World


@dataclass(frozen=True, slots=True)
class Simulator:
    """A running simulator. `url` is what `platform.base_url` takes, `control` the root of `/_simulator`."""

    machine: Machine
    server: Server

    @property
    def url(self) -> str:
        return f"{self.origin}/v1.2"

    @property
    def origin(self) -> str:
        scheme = "https" if self.server.tls else "http"
        host = self.server.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.server.port}"

    @property
    def control(self) -> str:
        return f"{self.origin}/_simulator"

    @property
    def admin(self) -> Person:
        """The administrator: `.id`, `.email`, `.password`, `.api_key`."""
        return self.machine.world.account.admin

    @property
    def ordinary(self) -> Person:
        """A user who sees only what is their own."""
        return self.machine.world.account.ordinary

    @property
    def two_factor(self) -> Person:
        """A user whose login needs a code."""
        return next(person for person in self.machine.world.account.people if person.two_factor)

    @property
    def world(self) -> World:
        return self.machine.world

    def stop(self) -> None:
        """End traffic, webhooks and all connections; returns within some two seconds."""
        self.machine.traffic.stop()
        self.server.stop()
        self.machine.sender.stop()


def start(
    *,
    seed: int = 1,
    host: str = "127.0.0.1",
    port: int = 0,
    cdrs: int = 200,
    start_at: float | None = None,
    live: bool = False,
    speed: float = 1.0,
    webhook: str | None = None,
    webhook_ca: str | Path | None = None,
    webhook_gaps: tuple[float, ...] = GAPS,
    faults: str = "",
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    token_idle: float = TOKEN_IDLE,
) -> Simulator:
    """Start answering and return. `start_at` (Unix seconds, default now) is where history ends; `live`
    lets calls happen by themselves. Raises faults.BadSpec, OSError (port in use), ssl.SSLError."""
    known_faults = Faults(seed, faults)
    world = World(seed, start_at)
    _seed(world, cdrs)
    sender = Sender(
        known_faults,
        url=webhook,
        ca=str(webhook_ca) if webhook_ca else None,
        seed=seed,
        gaps=webhook_gaps,
    )
    player = Player(world, lambda event, _: sender.send(event))
    traffic = Traffic(world, player, Player(world), speed)
    machine = Machine(
        world=world,
        doorman=Doorman(world.account, seed, token_idle),
        faults=known_faults,
        sender=sender,
        player=player,
        traffic=traffic,
        bustle=Bustle(traffic),
        registrations=Desk(world.account, random.Random(f"registrations {seed}")),
    )
    tls = None
    if tls_cert is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(tls_cert, tls_key)
    server = Server(host, port, create_app(machine), tls)
    server.serve_in_thread()
    sender.start()
    if live:
        machine.bustle.start()
    traffic.start()
    return Simulator(machine, server)


def _seed(world: World, cdrs: int) -> None:
    """Seeding makes much and drops little: looking for garbage meanwhile costs a third of its time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        seed_history(world, cdrs)
    finally:
        if collecting:
            gc.enable()
