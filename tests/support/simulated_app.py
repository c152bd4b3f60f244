"""The application in front of a simulator, over HTTP."""

from __future__ import annotations

import copy
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import get_resource
from integration.core import clock
from integration.factory import DERIVED_CONSUMER
from integration.mirror.sync_state import collection_state
from integration.mirror.sync_state.collection_state import State
from integration.simulator import embed
from integration.simulator.calls.player import Player
from tests.support.application import DEFAULTS, TestApp
from tests.support.clock import Clock

START = "2026-11-16 12:00:00"
"""A Monday noon in UTC, after a weekend with few calls: syncs of tests read 69 CDRs instead of 282.

Near midnight a day would end in a test.
"""


class SimulatedApp(TestApp):
    """Application whose platform is the simulator."""

    def __init__(self, folder: Path, clock: Clock, simulator: embed.Simulator, **settings: str) -> None:
        self.simulator = simulator
        account = {
            "platform__base_url": simulator.url,
            "platform__user_id": str(simulator.admin.id),
            "platform__api_key": simulator.admin.api_key,
            "platform__timeout": "5",
            "storage__data_dir": str(folder),
            # Failures reduce the budget to 1/64; tests with many failures must not wait for it.
            "sync__max_requests_per_minute": "6000000",
        }
        super().__init__({**DEFAULTS, **account, **settings}, None, clock)

    # --- the mirror --------------------------------------------------------------------------------

    @property
    def data_dir(self) -> Path:
        return self.context.settings.storage.data_dir

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.mirror_db.read() as connection:
            return [tuple(row) for row in connection.execute(sql, values)]

    def ids(self, table: str) -> list[int]:
        return [row[0] for row in self.rows(f"SELECT id FROM {table} ORDER BY id")]

    def row_count(self, collection: str) -> int:
        with self.mirror_db.read() as connection:
            return collection_state.count_rows(connection, get_resource(collection))

    def state(self, collection: str) -> State:
        with self.mirror_db.read() as connection:
            return collection_state.get_state(connection, collection)

    def receive(self, event: dict[str, Any]) -> None:
        """Store and apply a webhook."""
        self.context.inbox.receive(json.dumps(event).encode()).result(30)
        self.apply_webhooks()

    def start_sync(self) -> None:
        """Start the sync jobs and the derived tables without the other jobs of the product."""
        next(consumer for consumer in self.product.consumers if consumer.name == DERIVED_CONSUMER).start()
        self.context.sync_jobs.schedule()
        self.context.scheduler.start()

    # --- the platform ------------------------------------------------------------------------------

    def records(self, collection: str) -> dict[Any, dict[str, Any]]:
        return self.simulator.world.collections[collection].records

    def keep_recordings(self, count: int) -> None:
        """Remove all but the last `count` recordings from the platform.

        Downloading all takes longer than most tests.
        """
        monitors = self.records("monitors")
        for number in list(monitors)[:-count]:
            del monitors[number]

    def list_records(self, collection: str) -> list[dict[str, Any]]:
        """Records that the platform returns at the collection's path."""
        return json.loads(self.context.platform.get(f"/{collection}", {"limit": 5000}).body)["data"]

    def control(self, path: str, **body: object) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.simulator.control_url}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def play(self, script: str, **options: object) -> dict[str, Any]:
        """Create a recorded call that has ended, without webhooks."""
        return self.control("calls", script=script, instant=True, silent=True, recorded=True, **options)

    def faults(self, spec: str) -> None:
        """Replace the faults of the simulator by `spec`."""
        self.simulator.context.faults.clear()
        self.simulator.context.faults.add(spec)

    def count_requests(self, path: str) -> int:
        return sum(1 for entry in self.simulator.context.request_log if entry["path"] == path)

    def clear_requests(self) -> None:
        self.simulator.context.request_log.clear()

    def add_cdrs(self, count: int, **values: object) -> list[int]:
        """Add CDRs to the platform, copies of its last one.

        Returns their ids.
        """
        cdrs = self.simulator.world.collections["cdrs"]
        pattern = copy.deepcopy(list(cdrs.records.values())[-1])
        added = []
        for _ in range(count):
            number = self.simulator.world.new_id("cdrs")
            live_id = self.simulator.world.new_id("calls")
            cdrs.add({**pattern, "live_id": live_id, "root_live_id": live_id, **values, "id": number})
            added.append(number)
        return added


def add_sms(simulator: embed.Simulator) -> None:
    """Add an SMS and its answer, which the simulator seeds only for longer histories."""
    player, now = Player(simulator.world), clock.unix()
    own_number = next(ddi["e164"] for ddi in simulator.world.ddis if ddi["sms_enabled"])
    player.receive_sms("447700900123", own_number, "When do you open?", None, now - 3600)
    player.send_sms(simulator.ordinary_user, own_number, "447700900123", "At nine.", now - 3000)


@pytest.fixture
def make_simulated(tmp_path: Path, movable_clock: Clock) -> Iterator[Callable[..., SimulatedApp]]:
    apps: list[SimulatedApp] = []
    simulators: list[embed.Simulator] = []

    def make(cdrs: int = 20, simulator: embed.Simulator | None = None, **settings: str) -> SimulatedApp:
        if simulator is None:
            simulator = embed.start(seed=3, cdrs=cdrs)
            add_sms(simulator)
        if simulator not in simulators:
            simulators.append(simulator)
        apps.append(SimulatedApp(tmp_path / f"data{len(apps)}", movable_clock, simulator, **settings))
        return apps[-1]

    yield make
    for app in apps:
        app.close()
    for simulator in simulators:
        simulator.stop()


@pytest.fixture
def simulated(make_simulated: Callable[..., SimulatedApp]) -> SimulatedApp:
    return make_simulated()
