"""Simulator and product as its client, for identical requests to both."""

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


@dataclass(frozen=True)
class FacadeAddress:
    """Simulator with the product's URL, for requests to the facade."""

    simulator: embed.Simulator
    url: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.simulator, name)


@dataclass
class Pair:
    """Clients of a platform and of the facade.

    `platform` sends requests to a simulator, `facade` to the product.
    """

    platform: Client
    facade: Client
    product: factory.Product

    def both(self, method: str, path: str, **more: Any) -> tuple[requests.Response, requests.Response]:
        """Send a request to both. Returns the platform's response and the facade's."""
        return self.platform.send(method, path, **more), self.facade.send(method, path, **more)


@contextmanager
def run_product(simulator: embed.Simulator, data_dir: Path, **more: str) -> Iterator[tuple[Any, Client]]:
    """Run the product as a client of `simulator`, after the initial sync.

    Yields the product and a client of its facade.
    """
    settings = {
        "platform__base_url": simulator.url,
        "platform__user_id": str(simulator.admin.id),
        "platform__api_key": simulator.admin.api_key,
        "sync__max_requests_per_minute": "100000",
        "sync__recent_interval": "1",
        "sync__live_interval": "1",
        "recordings__download": "false",
        "voicemail__download": "false",
        **more,
    }
    with running_app(data_dir, **settings) as app:
        app.product.start()
        # The first request builds the receiver, which creates the webhook secret.
        requests.get(f"{app.url}/healthz", timeout=30).raise_for_status()
        secret = (data_dir / "webhook-secret").read_text().strip()
        facade = FacadeAddress(simulator, f"{app.url}/v1.2")
        client = Client(cast(embed.Simulator, facade), simulator.admin.api_key)
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


class StoppedClock:
    """Stopped clock of all simulators, in place of `integration.core.clock`.

    Two simulators with the same seed then respond to the same requests with the same records, including
    times. The product uses the real clock.
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

    def utc_text(self, moment: datetime | float | None = None) -> str:
        return clock.utc_text(self._now if moment is None else moment)

    def advance(self, *simulators: embed.Simulator) -> None:
        """Advance at least a second, and run the due steps of calls."""
        self._now = max(self._now + 1, float(int(clock.unix())))
        for simulator in simulators:
            ran = threading.Event()
            # Steps run in order of their times: this one after all that are due.
            simulator.context.traffic.schedule(self._now, lambda _, ran=ran: ran.set())
            assert ran.wait(30), simulator.context.traffic.error


@dataclass
class Twins(Pair):
    """Clients of two simulators with the same seed.

    `platform` sends requests to the first, `facade` to the product before the second.
    """

    second: embed.Simulator
    clock: StoppedClock

    def advance(self) -> None:
        """Advance the clock of both simulators."""
        self.clock.advance(self.platform.simulator, self.second)


@pytest.fixture(scope="module")
def module_twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """The twins of a module."""
    with pytest.MonkeyPatch.context() as patch:
        stopped = StoppedClock(patch)
        first, second = (embed.start(seed=7, cdrs=200, start_at=START) for _ in range(2))
        more = {"facade__destructive": "true"}
        try:
            with run_product(second, tmp_path_factory.mktemp("twin"), **more) as (product, facade):
                yield Twins(Client(first, first.admin.api_key), facade, product, second, stopped)
        finally:
            first.stop()
            second.stop()


@pytest.fixture
def twins(module_twins: Twins) -> Twins:
    """The twins of the module, a second after the previous test."""
    module_twins.advance()
    return module_twins


def parse_body(operation: Operation, response: requests.Response) -> Any:
    """Return a JSON body without `links`, or the bytes of another body.

    The product writes its own `links`.
    """
    if not response.content or "json" not in response.headers.get("Content-Type", ""):
        return response.content
    body = json.loads(response.content)
    if isinstance(body, dict) and "links" in body:
        assert isinstance(body["links"], dict)
        body = {name: value for name, value in body.items() if name != "links"}
    return body
