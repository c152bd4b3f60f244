"""What tests of schedules and of where they deliver to have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.core import clock
from tests.exports.scheduling import Clock
from tests.platform_api.server import Server


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock("2026-11-18 12:00:00")
    monkeypatch.setattr(clock, "unix", fake)
    return fake


@pytest.fixture
def server() -> Iterator[Server]:
    """Takes whatever is put."""
    server = Server()
    server.routes["*"] = lambda asked, reply: reply.content(b"", "text/plain", 201)
    yield server
    server.close()
