"""The CRM address of a caller is attached once to the inbound live call on the platform."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from integration.core import clock
from integration.sync.writing import write_log
from integration.sync.writing.crm_on_platform import CrmOnPlatform
from tests.support.application import TestApp, running_app
from tests.support.fake_exchange import NOT_FOUND, FakeExchange
from tests.support.harness import wait_for
from tests.support.people import CALLER

URL = "https://crm.example.com/?q="
LINK = URL + quote(f"+{CALLER}", safe="")


@pytest.fixture
def app(tmp_path: Path, platform: FakeExchange):
    options = {"dashboard__crm_url": URL + "{e164}", "dashboard__crm_label": "Customers",
               "dashboard__crm_on_platform": "true", "dashboard__country": "GB"}  # fmt: skip
    with running_app(tmp_path / "data", platform=platform, **options) as app:
        yield app


def ring(app: TestApp, leg: int, **values: str) -> None:
    app.event("call.ringing", leg, clock.utc_text(), state="RINGING", **values)


def list_call(platform: FakeExchange, leg: int, **values: object) -> None:
    record = {"id": leg, "state": "RINGING", "src": CALLER, "dst": "442079460002", "destination": 1, **values}
    platform.respond("GET /calls/{id}", {"data": record, "links": {}})
    platform.respond("GET /calls", {"data": [record], "total": 1})


def sent(platform: FakeExchange) -> list[tuple[str, dict]]:
    return [(one.path, json.loads(one.body)) for one in platform.requests if one.method == "PATCH"]


def test_a_started_product_attaches_the_address_once(app: TestApp, platform: FakeExchange) -> None:
    platform.respond("*", {"data": [], "total": 0})
    list_call(platform, 41)
    platform.respond("PATCH /calls/{id}", {"data": {"id": 41}}, 301)
    ring(app, 41)
    ring(app, 42, destination="out", src="201", dst=CALLER)
    ring(app, 43, src="anonymous")
    app.product.start()
    wait_for(lambda: sent(platform), "the address on the platform")
    job = CrmOnPlatform(app.context)  # as after a restart
    job.run()
    job.run()
    assert sent(platform) == [("/calls/41", {"action_url": LINK, "action_text": "Customers"})]
    (entry,) = write_log.list_newest(app.app_db)
    assert (entry.who, entry.path, entry.status) == ("dashboard.crm_on_platform", "/calls/41", 301)


def test_an_address_of_another_program_is_never_replaced(app: TestApp, platform: FakeExchange) -> None:
    platform.respond("PATCH /calls/{id}", {"data": {"id": 41}})
    list_call(platform, 41, action_url="https://other.example.com/")
    ring(app, 41)
    job = CrmOnPlatform(app.context)
    job.run()
    assert sent(platform) == []
    list_call(platform, 51)
    ring(app, 51)
    body = {"action_url": "https://other.example.com/"}
    answer = app.client.patch("/v1.2/calls/51", json=body, headers=app.add_key("cti", "write"))
    assert answer.status_code == 200
    job.run()
    assert sent(platform) == [("/calls/51", body)]


def test_a_failure_is_logged_and_not_repeated_and_an_unlisted_call_waits(
    app: TestApp, platform: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    platform.respond("*", NOT_FOUND, 404)
    ring(app, 41)
    job = CrmOnPlatform(app.context)
    job.run()
    assert (sent(platform), caplog.messages) == ([], [])
    list_call(platform, 41)
    platform.respond("PATCH /calls/{id}", {"message": "No such call", "errors": []}, 400)
    for _ in range(3):
        job.run()
    assert len(sent(platform)) == 1
    assert [message.partition(":")[0] for message in caplog.messages] == ["no CRM address for call 41"]
    assert write_log.list_newest(app.app_db)[0].status == 400
