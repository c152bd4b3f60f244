"""A simulator and the product in front of it, for the same requests to both."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from integration import factory
from integration.catalogue.shapes import Operation
from integration.core import clock
from integration.mirror.sync_state import collection_state
from integration.simulator import embed
from integration.sync.plan import list_full_sync_policies
from tests.support.application import running_app
from tests.support.harness import wait_for
from tests.support.simulator_client import START, Client

VOLATILE = {"duration"}
"""What a live call tells differently whenever it is asked."""


@dataclass(frozen=True)
class Behind:
    """A simulator as the product's clients see it: everything its own but the address."""

    simulator: embed.Simulator
    url: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.simulator, name)


@dataclass
class Pair:
    """`platform` asks the simulator itself, `facade` the product in front of `through`'s."""

    platform: Client
    facade: Client
    product: factory.Product

    def both(self, method: str, path: str, **more: Any) -> tuple[requests.Response, requests.Response]:
        return self.platform.ask(method, path, **more), self.facade.ask(method, path, **more)


@contextmanager
def product_before(simulator: embed.Simulator, data_dir: Path, **more: str) -> Iterator[tuple[Any, Client]]:
    """The product in front of `simulator`, once it has read every collection."""
    settings = {
        "platform__base_url": simulator.url,
        "platform__user_id": str(simulator.admin.id),
        "platform__api_key": simulator.admin.api_key,
        "sync__max_requests_per_minute": "100000",
        "sync__recent_interval": "2",
        "recordings__download": "false",
        "voicemail__download": "false",
        **more,
    }
    with running_app(data_dir, **settings) as app:
        app.product.start()
        secret = (data_dir / "webhook-secret").read_text().strip()
        client = Client(cast(embed.Simulator, Behind(simulator, f"{app.url}/v1.2")), simulator.admin.api_key)
        requests.post(
            f"{simulator.control_url}/webhook", json={"url": f"{app.url}/webhooks/{secret}"}, timeout=30
        ).raise_for_status()
        wait_for(lambda: _complete(app.product), "every collection read", 180)
        yield app.product, client


def _complete(product: factory.Product) -> bool:
    with product.context.mirror_db.read() as connection:
        return all(
            collection_state.get_state(connection, policy.collection).complete_at is not None
            for policy in list_full_sync_policies()
        )


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """One simulator, asked directly and through the facade."""
    simulator = embed.start(seed=7, cdrs=400, start_at=START)
    try:
        with product_before(simulator, tmp_path_factory.mktemp("data")) as (product, facade):
            yield Pair(Client(simulator, simulator.admin.api_key), facade, product)
    finally:
        simulator.stop()


class Held:
    """The clock of every simulator, in place of `integration.core.clock`: it stands until told to go on.

    Whatever two simulators from one seed are told alike, they then do alike, to the last stamp. The product
    keeps the real clock.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._now = float(int(clock.unix()))
        for name, module in list(sys.modules.items()):
            if name.startswith("integration.simulator.") and hasattr(module, "clock"):
                patch.setattr(module, "clock", self)

    def __getattr__(self, name: str) -> Any:
        return getattr(clock, name)

    def unix(self) -> float:
        return self._now

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now, UTC)

    def stamp(self, moment: datetime | float | None = None) -> str:
        return clock.utc_text(self._now if moment is None else moment)

    def go_on(self, *simulators: embed.Simulator) -> None:
        """Let it be a later second, and every call of `simulators` be where it is by then."""
        self._now = max(self._now + 1, float(int(clock.unix())))
        for simulator in simulators:
            arrived = threading.Event()
            # Behind everything that was due until now.
            simulator.context.traffic.schedule(self._now, lambda _, arrived=arrived: arrived.set())
            assert arrived.wait(30), simulator.context.traffic.error


@dataclass
class Twins(Pair):
    """Two simulators from one seed, `facade`'s behind the product: both are told the same."""

    second: embed.Simulator
    clock: Held

    def go_on(self) -> None:
        self.clock.go_on(self.platform.simulator, self.second)


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with pytest.MonkeyPatch.context() as patch:
        held = Held(patch)
        first, second = (embed.start(seed=7, cdrs=200, start_at=START) for _ in range(2))
        more = {"facade__destructive": "true"}
        try:
            with product_before(second, tmp_path_factory.mktemp("twin"), **more) as (product, facade):
                yield Twins(Client(first, first.admin.api_key), facade, product, second, held)
        finally:
            first.stop()
            second.stop()


@pytest.fixture
def twins(born: Twins) -> Twins:
    """The twins, in a second of its own for each test."""
    born.go_on()
    return born


def steady(value: Any) -> Any:
    """`value` without what changes while it is asked for."""
    if isinstance(value, dict):
        return {name: steady(inner) for name, inner in value.items() if name not in VOLATILE}
    return [steady(inner) for inner in value] if isinstance(value, list) else value


def parse_body(operation: Operation, answer: requests.Response) -> Any:
    """What an answer says, apart from how it is written. `links` are ours."""
    if not answer.content or "json" not in answer.headers.get("Content-Type", ""):
        return answer.content
    body = json.loads(answer.content)
    if isinstance(body, dict) and "links" in body:
        assert isinstance(body["links"], dict)
        body = {name: value for name, value in body.items() if name != "links"}
    return body
