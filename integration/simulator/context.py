"""All parts of one simulator in one place, for the routes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.calls.player import Player
from integration.simulator.calls.traffic import Traffic
from integration.simulator.calls.traffic_generator import Bustle
from integration.simulator.calls.webhooks import Sender
from integration.simulator.http.faults import Faults
from integration.simulator.records.authentication import Doorman
from integration.simulator.records.registrations import Desk
from integration.simulator.world import World

Record = dict[str, Any]

_LOG_KEPT = 20_000


@dataclass(slots=True)
class Machine:
    """One simulator. `log`: requests seen, the newest last; `outage_until`: monotonic seconds."""

    world: World
    doorman: Doorman
    faults: Faults
    sender: Sender
    player: Player
    traffic: Traffic
    bustle: Bustle
    registrations: Desk
    log: deque[Record] = field(default_factory=lambda: deque(maxlen=_LOG_KEPT))
    outage_until: float = 0.0
    escape_slashes: bool = True
