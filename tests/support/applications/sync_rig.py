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
from integration.core.health import Health
from integration.inbox.apply import END_EVENTS
from integration.inbox.interpret import interpret, parse_body, read_envelope
from integration.mirror import hooks
from integration.mirror.calls import live_table
from integration.mirror.calls.facts import CallEvent
from integration.mirror.calls.store import CallStore
from integration.mirror.schema import open_mirror
from integration.mirror.sync_state import collection_state, lookup_queue
from integration.mirror.sync_state.collection_state import State
from integration.platform_api import retry
from integration.platform_api.client import Platform
from integration.settings.model import load
from integration.simulator import embed
from integration.sqlite.transaction import Transaction
from integration.sync.context import StandaloneSyncContext
from integration.sync.plan import PLAN

BEGIN = 1795014000.0
"""2026-11-18 15:00:00 UTC, a Wednesday."""


@pytest.fixture(autouse=True)
def wednesday(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins at BEGIN: on a Monday morning the simulator has few calls behind it, and no day ends
    in the middle."""
    unix = clock.unix
    ahead = BEGIN - unix()
    monkeypatch.setattr(clock, "unix", lambda: unix() + ahead)


class Rig:
    """A simulator over real HTTP, and a mirror that is kept true to it."""

    def __init__(self, folder: Path, simulator: embed.Simulator, **settings: str) -> None:
        self.simulator = simulator
        self.folder = folder
        admin = simulator.admin
        environment = {
            "SWITCHROOM_PLATFORM__BASE_URL": simulator.url,
            "SWITCHROOM_PLATFORM__USER_ID": str(admin.id),
            "SWITCHROOM_PLATFORM__API_KEY": admin.api_key,
            "SWITCHROOM_PLATFORM__TIMEOUT": "5",
            "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
            **{f"SWITCHROOM_{name.upper()}": value for name, value in settings.items()},
        }
        self.settings = load(None, environment)
        self.mirror_db = open_mirror(folder / "mirror.db")
        calls = CallStore()
        hooks.register_hooks(self.mirror_db, calls)
        self.health = Health()
        self.platform = Platform(self.settings.platform, requests_per_minute=60_000)
        self.parts = StandaloneSyncContext(self.settings, self.mirror_db, self.platform, self.health, calls)

    def close(self) -> None:
        self.platform.close()
        self.mirror_db.close()

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

    # --- the platform's side -----------------------------------------------------------------------

    def records(self, collection: str) -> dict[Any, dict[str, Any]]:
        return self.simulator.world.collections[collection].records

    def listed(self, collection: str) -> list[dict[str, Any]]:
        """What the platform answers at the collection's path."""
        return json.loads(self.platform.get(f"/{collection}", {"limit": 5000}).body)["data"]

    def control(self, path: str, **body: object) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.simulator.control_url}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def play(self, script: str, **options: object) -> dict[str, Any]:
        """A recorded call that has happened already, told by no webhook."""
        return self.control("calls", script=script, instant=True, silent=True, recorded=True, **options)

    def tell(self, event: dict[str, Any]) -> None:
        """A webhook of the platform's is applied."""
        body = json.dumps(event).encode()
        envelope, record = read_envelope(body), parse_body(body)
        assert record is not None
        told = interpret(record, clock.utc_text(), envelope.event_id or "none", envelope.event_name)

        def job(tx: Transaction) -> None:
            assert isinstance(told, CallEvent)
            self.parts.call_store.add_events(tx, [told])
            live_table.apply_event(tx, told)
            if told.name in END_EVENTS and told.leg_id is not None:
                lookup_queue.enqueue_leg(tx, told.leg_id, told.event_time)

        self.mirror_db.write(job)

    def faults(self, spec: str) -> None:
        self.simulator.context.faults.clear()
        self.simulator.context.faults.add(spec)

    def asked(self, path: str) -> int:
        return sum(1 for entry in self.simulator.context.request_log if entry["path"] == path)

    def forget_asked(self) -> None:
        self.simulator.context.request_log.clear()

    def add_cdrs(self, count: int, **values: object) -> list[int]:
        """More CDRs at the platform, copies of its last."""
        cdrs = self.simulator.world.collections["cdrs"]
        pattern = copy.deepcopy(list(cdrs.records.values())[-1])
        added = []
        for _ in range(count):
            number = self.simulator.world.new_id("cdrs")
            live_id = self.simulator.world.new_id("calls")
            cdrs.add({**pattern, "live_id": live_id, "root_live_id": live_id, **values, "id": number})
            added.append(number)
        return added


@pytest.fixture
def make_rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rig]]:
    monkeypatch.setattr(retry, "GAPS", (0.001,))
    made: list[tuple[Rig | None, embed.Simulator]] = []

    def make(cdrs: int = 40, simulator: embed.Simulator | None = None, **settings: str) -> Rig:
        simulator = simulator or embed.start(seed=3, cdrs=cdrs)
        made.append((None, simulator))
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        rig = Rig(folder, simulator, **settings)
        made.append((rig, simulator))
        return rig

    yield make
    for rig, _ in made:
        if rig is not None:
            rig.close()
    for simulator in {id(simulator): simulator for _, simulator in made}.values():
        simulator.stop()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`later(60)`: a minute passes. `later(-60)`: the wall clock is set back; the other never goes back."""
    moved = passed = 0.0
    unix, monotonic = clock.unix, clock.monotonic

    def later(seconds: float) -> None:
        nonlocal moved, passed
        moved += seconds
        passed += max(0.0, seconds)
        monkeypatch.setattr(clock, "unix", lambda: unix() + moved)
        monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + passed)

    return later


CDRS = PLAN["cdrs"]
