"""All parts of one simulator in one place, for the routes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from integration.simulator.bustle import Bustle
from integration.simulator.faults import Faults
from integration.simulator.login import Doorman
from integration.simulator.play import Player
from integration.simulator.registrations import Desk
from integration.simulator.traffic import Traffic
from integration.simulator.webhooks import Sender
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
