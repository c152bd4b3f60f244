"""Simulator with few records, its HTTP client, and a receiver of webhooks."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from integration.simulator import embed
from tests.support.fake_exchange import read_fixture
from tests.support.scripted_server import Request, Server

# 2026-11-20 10:00:00 UTC, a Friday.
START = 1795168800.0


def sample(name: str) -> dict[str, Any]:
    record: dict[str, Any] = read_fixture(name)
    return record


def to_unix(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


def find_double_calls(cdrs: Iterable[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return user and start of each call that begins during another."""
    talks: dict[int, list[tuple[float, float, int, str]]] = defaultdict(list)
    for cdr in cdrs:
        if not cdr["billsec"] or cdr["disposition"] == "VM":
            continue
        end = to_unix(cdr["calldate"]) + cdr["duration"]
        users = {cdr["user_id"]} | ({int(cdr["dst_id"])} if cdr["context"] == "USER_LOCAL" else set())
        for user in users - {None}:
            talks[user].append((end - cdr["billsec"], end, cdr["root_live_id"], cdr["calldate"]))
    double = []
    for user, spans in talks.items():
        latest_end, latest_root = 0.0, 0
        for begin, end, root, started in sorted(spans):
            if begin < latest_end and root != latest_root:
                double.append((user, started))
            if end > latest_end:
                latest_end, latest_root = end, root
    return double


@dataclass
class Client:
    """HTTP client with the token of one platform user."""

    simulator: embed.Simulator
    token: str
    session: requests.Session = field(default_factory=requests.Session)

    def send(self, method: str, path: str, **more: Any) -> requests.Response:
        more.setdefault("timeout", 10)
        headers = {"X-Auth-Token": self.token, **more.pop("headers", {})}
        return self.session.request(
            method, self.simulator.url + path, headers=headers, allow_redirects=False, **more
        )

    def get(self, path: str, **params: Any) -> requests.Response:
        return self.send("GET", path, params=params)

    def rows(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All records of a collection, from all pages."""
        found: list[dict[str, Any]] = []
        page = 1
        while True:
            body = self.get(path, page=page, limit=5000, **params).json()
            found += body["data"]
            if not body["data"] or len(found) >= body["total"]:
                return found
            page += 1

    def play(self, script: str, **more: Any) -> dict[str, Any]:
        response = self.session.post(
            f"{self.simulator.control_url}/calls",
            json={"script": script, "instant": True, **more},
            timeout=30,
        )
        assert response.status_code == 201, response.text
        return response.json()

    def control(self, method: str, path: str, **more: Any) -> Any:
        return self.session.request(method, self.simulator.control_url + path, timeout=30, **more).json()


class Receiver(Server):
    """HTTP server that stores the body and headers of every webhook.

    `answers` are the statuses of the next responses; afterwards the status is 200.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[int] = []
        self.changed = threading.Condition()
        self.routes["*"] = self._receive

    def _receive(self, request: Request, reply: Any) -> None:
        with self.changed:
            self.received.append(json.loads(request.body))
            self.headers.append(request.headers)
            self.changed.notify_all()
            status = self.answers.pop(0) if self.answers else 200
        reply.content(b"", "text/plain", status)

    def wait_for(self, count: int, seconds: float = 30.0) -> list[dict[str, Any]]:
        """Wait for `count` webhooks. Returns all received so far."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.received) >= count, seconds), self.received
            return list(self.received)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with closing(Receiver()) as server:
        yield server


@pytest.fixture
def begin() -> Iterator[Callable[..., Client]]:
    """Function that starts a simulator and returns its administrator's client.

    It accepts the options of `embed.start`.
    """
    running: list[embed.Simulator] = []

    def start(**options: Any) -> Client:
        simulator = embed.start(**{"seed": 7, "cdrs": 0, **options})
        running.append(simulator)
        return Client(simulator, simulator.admin.api_key)

    yield start
    for simulator in running:
        simulator.stop()


@pytest.fixture(scope="module")
def world() -> Iterator[Client]:
    """Client of a simulator with 400 CDRs.

    Tests of the module do not change it.
    """
    simulator = embed.start(seed=7, cdrs=400, start_at=START)
    yield Client(simulator, simulator.admin.api_key)
    simulator.stop()
