"""World: the state of a simulated account and its live calls."""

from __future__ import annotations

import random

from integration.core import clock
from integration.simulator.calls.events import EventIdGenerator
from integration.simulator.calls.legs import Leg
from integration.simulator.calls.office_hours import OfficeHours
from integration.simulator.calls.records import live_record
from integration.simulator.calls.scripts import CallScripts
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import Record


class World(AccountState):
    """State of one simulated platform."""

    def __init__(
        self,
        seed: int,
        start: float | None = None,
        office_hours: OfficeHours | None = None,
        *,
        has_assigned_mobiles: bool = False,
    ) -> None:
        super().__init__(seed, start, has_assigned_mobiles=has_assigned_mobiles)
        self.office_hours = office_hours or OfficeHours()
        self.event_ids = EventIdGenerator(random.Random(f"events {seed}"))
        self.live_legs: dict[int, Leg] = {}
        # Missed calls of withheld numbers cannot be called back. In a busy account they would fill the list.
        withheld_share = 0.004 if self.office_hours.is_busy else 0.03
        self.scripts = CallScripts(self, random.Random(f"switchroom {seed}"), withheld_share)
        self.collections["calls"].derive = self._list_live_records

    def _list_live_records(self) -> list[Record]:
        now = clock.unix()
        with self.lock:
            return [live_record(leg, now) for leg in sorted(self.live_legs.values(), key=lambda leg: leg.id)]
