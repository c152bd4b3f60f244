from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.core import retry_delays
from integration.platform_api import client
from integration.platform_api.client import Platform
from tests.support.scripted_server import Server


@dataclass(frozen=True)
class PlatformSettings:
    base_url: str
    user_id: str | None = "1000001"
    api_key: str | None = "a" * 40
    email: str | None = None
    password: str | None = None
    ca_file: Path | None = None
    timeout: float = 5
    max_concurrency: int = 4


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def make(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Platform]]:
    monkeypatch.setattr(retry_delays, "REQUESTS", (0.001,))
    platforms: list[Platform] = []

    def make(**options: object) -> Platform:
        platform = client.Platform(PlatformSettings(**{"base_url": f"{server.url}/v1.2", **options}))  # type: ignore[arg-type]
        platforms.append(platform)
        return platform

    yield make
    for platform in platforms:
        platform.close()


@pytest.fixture
def login(make: Callable[..., Platform]) -> Callable[..., Platform]:
    """Create a platform client that logs in and has no API key."""
    return lambda **options: make(
        user_id=None, api_key=None, email="ann@example.com", password="secret", **options
    )
