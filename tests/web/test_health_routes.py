"""Probes get an answer without a login, metrics only from this machine or with a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from integration.access import keys
from integration.app_schema import open_app_db
from integration.core.health import Health
from integration.dashboard.site import headers
from integration.mirror.calls import backlog
from integration.mirror.schema import open_mirror
from integration.sqlite.database import Database
from integration.web import trusted_proxies
from integration.web.health_routes import make_blueprint

FAR = {"REMOTE_ADDR": "192.0.2.7"}


@dataclass
class Parts:
    """As much of the product as these routes ask."""

    app_db: Database
    mirror_db: Database
    health: Health = field(default_factory=Health)
    live_hub: Any = field(default_factory=lambda: SimpleNamespace(subscriber_count=2))
    inbox: Any = field(
        default_factory=lambda: SimpleNamespace(count_acknowledgements=lambda: {"stored": 3, "refused": 1})
    )


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    app_db = open_app_db(tmp_path / "house.db")
    mirror = open_mirror(tmp_path / "mirror.db")
    yield Parts(app_db, mirror)
    mirror.close()
    app_db.close()


@pytest.fixture
def client(parts: Parts) -> FlaskClient:
    app = Flask(__name__)
    app.register_blueprint(make_blueprint(parts))  # type: ignore[arg-type]
    trusted_proxies.install(app, [])
    headers.install(app)
    return app.test_client()


def test_healthz_answers_while_the_process_lives(client: FlaskClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.head("/healthz").status_code == 200


def test_readyz_is_503_only_when_something_essential_fails(client: FlaskClient, parts: Parts) -> None:
    parts.health.fail("platform", "no answer")
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    parts.health.probe("inbox.db", lambda: "its writer is gone", essential=True)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json["status"]) == (503, "unready")
    assert answer.json["checks"]["inbox.db"]["error"] == "its writer is gone"


def test_readyz_tells_strangers_states_and_no_details(client: FlaskClient, parts: Parts) -> None:
    parts.health.fail("platform", "api.example.com: no answer")
    answer = client.get("/readyz", environ_base=FAR)
    assert answer.json["checks"] == {"platform": {"state": "failing"}}
    assert "example.com" not in answer.text


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_metrics_are_for_this_machine(client: FlaskClient, address: str) -> None:
    answer = client.get("/metrics", environ_base={"REMOTE_ADDR": address})
    assert answer.status_code == 200
    assert "switchroom_live_streams 2.0" in answer.text


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8000", 200), ("[::1]:8000", 200), ("localhost", 200), ("192.0.2.7", 200),
     ("rebound.example.com:8000", 401), ("[", 401), ("127.0.0.1.example.com", 401)],
)  # fmt: skip
def test_a_page_of_the_web_that_was_made_to_lead_here_reads_no_metrics(
    client: FlaskClient, host: str, status: int
) -> None:
    assert client.get("/metrics", headers={"Host": host}).status_code == status


def test_metrics_count_webhooks(client: FlaskClient) -> None:
    page = client.get("/metrics").text
    assert 'switchroom_webhooks_total{outcome="stored"} 3.0' in page
    assert 'switchroom_webhooks_total{outcome="refused"} 1.0' in page


def test_metrics_tell_how_many_legs_wait_for_their_calls(client: FlaskClient, parts: Parts) -> None:
    parts.mirror_db.write(lambda tx: backlog.add(tx, [1, 2, 3]))
    assert "switchroom_legs_waiting 3.0" in client.get("/metrics").text


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"])
def test_metrics_are_not_for_whom_a_proxy_on_this_machine_speaks(client: FlaskClient, header: str) -> None:
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 401


def test_metrics_are_for_a_key_from_anywhere(client: FlaskClient, parts: Parts) -> None:
    user, secret = keys.add(parts.app_db, "prometheus", "read")
    for given in (
        {"auth": (str(user), secret)},
        {"headers": {"X-Auth-Token": secret}},
    ):
        assert client.get("/metrics", environ_base=FAR, **given).status_code == 200
    assert client.get("/metrics", environ_base=FAR, auth=(str(user + 1), secret)).status_code == 401
    keys.revoke(parts.app_db, "prometheus")
    assert client.get("/metrics", environ_base=FAR, auth=(str(user), secret)).status_code == 401


def test_guessing_keys_is_bounded(client: FlaskClient) -> None:
    answers = [
        client.get("/metrics", environ_base=FAR, headers={"X-Auth-Token": f"{number:040x}"}).status_code
        for number in range(12)
    ]
    assert answers[0] == 401
    assert answers[-1] == 429
