"""Facade and exports of one application share the state of verified credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from integration import factory
from integration.access.authenticator import RECHECK_SECONDS
from integration.access.login_throttle import MAX_ATTEMPTS
from integration.core import clock
from integration.settings.model import Settings
from tests.support.applications.facade_app import ADMIN, me_of, says
from tests.support.scripted_server import Server

BASE = "/v1.2/voipstudio"
FACADE, EXPORT, PREPARED = f"{BASE}/ping", "/exports/cdrs.csv", "/exports/prepared/1"
VERIFIED, UNKNOWN = {"X-Auth-Token": ADMIN}, {"X-Auth-Token": "f" * 40}


@pytest.fixture
def platform() -> Iterator[Server]:
    server = Server()
    server.routes[f"{BASE}/me"] = lambda request, reply: reply.json(me_of(request)[1], me_of(request)[0])
    server.routes[f"{BASE}/ping"] = says({"message": "Pong"})
    yield server
    server.close()


@pytest.fixture
def client(platform: Server, tmp_path: Path) -> Iterator[FlaskClient]:
    account = {"base_url": platform.url + BASE, "user_id": "1000001", "api_key": "a" * 40}
    product = factory.build(Settings.model_validate({"platform": account, "storage": {"data_dir": tmp_path}}))
    yield product.site.test_client()
    product.stop()


@pytest.fixture
def advance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`advance(seconds)` moves the clock."""

    def advance(seconds: float) -> None:
        moved = clock.unix() + seconds
        monkeypatch.setattr(clock, "unix", lambda: moved)

    return advance


def send(client: FlaskClient, platform: Server, url: str, status: int = 200) -> list[str]:
    """Send a request with the verified credential. Return the paths of its requests to the platform."""
    before = len(platform.asked)
    assert client.get(url, headers=VERIFIED).status_code == status
    return [request.path.removeprefix(BASE) for request in platform.asked[before:]]


def test_credential_verified_by_the_facade_is_not_verified_for_an_export(
    client: FlaskClient, platform: Server
) -> None:
    assert "/me" in send(client, platform, FACADE)
    assert send(client, platform, EXPORT) == []


def test_rights_read_by_the_facade_are_not_read_for_an_export(
    client: FlaskClient, platform: Server, advance: Callable[[float], None]
) -> None:
    send(client, platform, FACADE)
    advance(RECHECK_SECONDS + 1)
    assert send(client, platform, EXPORT) == ["/ping"]


@pytest.mark.parametrize(("url", "status"), [(EXPORT, 200), (PREPARED, 404)])
def test_failed_check_of_the_facade_is_not_repeated_for_an_export(
    client: FlaskClient, platform: Server, advance: Callable[[float], None], url: str, status: int
) -> None:
    send(client, platform, FACADE)
    platform.routes = {"*": says({"message": "down", "errors": []}, 503)}
    advance(RECHECK_SECONDS + 1)
    assert send(client, platform, FACADE) == ["/ping"]
    assert send(client, platform, url, status) == []


def test_failed_attempts_count_across_facade_and_exports(client: FlaskClient) -> None:
    for number in range(MAX_ATTEMPTS):
        url = EXPORT if number % 2 else FACADE
        assert client.get(url, headers=UNKNOWN).status_code == 401
    assert client.get(FACADE, headers=UNKNOWN).status_code == 429
    assert client.get(EXPORT, headers=UNKNOWN).status_code == 429
