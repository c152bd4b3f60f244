"""Health routes: probes without login, metrics from loopback or with a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from werkzeug.test import Client

from integration.access import keys
from integration.core.errors import SwitchroomError
from integration.web.metrics.listener import MetricsListener
from integration.web.metrics.registry import Metrics
from tests.support.application import TestApp, running_app

FAR = {"REMOTE_ADDR": "192.0.2.7"}


@pytest.fixture(scope="module")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """One application for the read-only tests of this file."""
    with running_app(tmp_path_factory.mktemp("shared")) as app:
        yield app


@pytest.fixture
def client(app: TestApp) -> Client:
    return app.client


def test_healthz_returns_200(shared_app: TestApp) -> None:
    assert shared_app.client.get("/healthz").status_code == 200
    assert shared_app.client.head("/healthz").status_code == 200


def test_readyz_returns_503_only_if_an_essential_check_fails(client: Client, app: TestApp) -> None:
    app.context.health.fail("platform", "no answer")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    app.context.health.probe("inbox.db", lambda: "its writer has stopped", essential=True)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["status"]) == (503, "unready")
    assert answer.json["checks"]["inbox.db"]["error"] == "its writer has stopped"


def test_readyz_shows_remote_clients_states_without_details(client: Client, app: TestApp) -> None:
    app.context.health.fail("platform", "api.example.com: no answer")
    answer = client.get("/readyz", environ_base=FAR)
    assert answer.json["checks"]["platform"] == {"state": "failing"}
    assert all(check.keys() == {"state"} for check in answer.json["checks"].values())
    assert "example.com" not in answer.text


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_metrics_are_readable_from_loopback(app: TestApp, client: Client, address: str) -> None:
    streams = [app.context.live_hub.subscribe(None) for _ in range(2)]
    answer = client.get("/metrics", environ_base={"REMOTE_ADDR": address})
    assert answer.status_code == 200
    assert "switchroom_live_streams 2.0" in answer.text
    for stream in streams:
        app.context.live_hub.unsubscribe(stream)


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8000", 200), ("[::1]:8000", 200), ("localhost", 200), ("192.0.2.7", 200),
     ("rebound.example.com:8000", 401), ("[", 401), ("127.0.0.1.example.com", 401)],
)  # fmt: skip
def test_metrics_need_a_key_under_a_foreign_host_name(shared_app: TestApp, host: str, status: int) -> None:
    assert shared_app.client.get("/metrics", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"])
def test_metrics_need_a_key_behind_a_proxy_on_this_host(shared_app: TestApp, header: str) -> None:
    assert shared_app.client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 401


def test_metrics_accept_a_key_from_any_address(client: Client, app: TestApp) -> None:
    user, secret = keys.add(app.app_db, "prometheus", "read")
    for given in (
        {"auth": (str(user), secret)},
        {"headers": {"X-Auth-Token": secret}},
    ):
        assert client.get("/metrics", environ_base=FAR, **given).status_code == 200
    assert client.get("/metrics", environ_base=FAR, auth=(str(user + 1), secret)).status_code == 401
    keys.revoke(app.app_db, "prometheus")
    assert client.get("/metrics", environ_base=FAR, auth=(str(user), secret)).status_code == 401


def test_failed_keys_for_metrics_are_throttled(client: Client) -> None:
    answers = [
        client.get("/metrics", environ_base=FAR, headers={"X-Auth-Token": f"{number:040x}"}).status_code
        for number in range(12)
    ]
    assert answers[0] == 401
    assert answers[-1] == 429


def test_metrics_always_need_a_key_with_a_public_url(tmp_path: Path) -> None:
    with running_app(tmp_path, server__public_url="https://calls.example.com") as app:
        # A proxy on this machine may send neither forwarding headers nor the name that the browser used.
        assert app.client.get("/metrics", headers={"Host": "127.0.0.1:8000"}).status_code == 401
        headers = app.add_key("prometheus")
        assert app.client.get("/metrics", headers=headers).status_code == 200


def test_metrics_have_an_address_of_their_own(tmp_path: Path) -> None:
    settings = {"server__public_url": "https://calls.example.com", "server__metrics_listen": "127.0.0.1:0"}
    with running_app(tmp_path, **settings) as app:
        listener = app.product.metrics_listener
        assert listener is not None
        listener.start()
        url = f"http://127.0.0.1:{listener.port}"
        assert "switchroom_ready 1.0" in requests.get(f"{url}/metrics", timeout=20).text
        assert "switchroom_live_streams 0.0" in requests.get(f"{url}/metrics", timeout=20).text
        second = MetricsListener(Metrics(), f"127.0.0.1:{listener.port}")
        with pytest.raises(
            SwitchroomError, match=r"server\.metrics_listen: 127\.0\.0\.1:[0-9]+ cannot be opened"
        ):
            second.start()
        app.product.stop()
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{url}/metrics", timeout=20)
