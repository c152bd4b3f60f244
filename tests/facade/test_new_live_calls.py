"""Records of live calls that only webhooks reported, after their request by the call's own path."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from integration.core.errors import PlatformError
from integration.sync.reading import live_poll
from tests.support.application import TestApp
from tests.support.clock import Clock
from tests.support.harness import wait_for
from tests.support.live_calls import (
    LEG,
    PATH,
    RECORD,
    LiveCallClient,
    count_reads,
    list_live,
    read_mirror_headers,
)

START = "2026-09-02 08:45:50"


@pytest.fixture(autouse=True)
def start(movable_clock: Clock) -> None:
    movable_clock.freeze(START)


@pytest.fixture
def facade(app: TestApp) -> LiveCallClient:
    app.platform.respond("/calls", {"data": [], "total": 0})
    return LiveCallClient(app)


def test_a_call_of_webhooks_gets_the_fields_of_the_platform(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    list_live(app, RECORD)
    movable_clock.set("2026-09-02 08:45:55")
    app.event("call.ringing", LEG, "2026-09-02 08:45:55")
    assert live_poll.read_new_legs(app.context) == 1
    assert facade.read_both() == RECORD
    movable_clock.set("2026-09-02 08:46:02")
    app.event("call.connected", LEG, "2026-09-02 08:46:02", connected_at="2026-09-02 08:46:02")
    assert live_poll.read_new_legs(app.context) == 0
    call = facade.read_both()
    assert call is not None
    assert (call["state"], call["connected_at"], call["clid"]) == ("CONNECTED", 1788338762, RECORD["clid"])
    assert (app.platform.count(PATH), app.platform.count("/calls")) == (1, 1)


def test_an_event_during_the_request_keeps_its_state(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()

    def respond_late(_request: Any, reply: Any) -> None:
        movable_clock.advance(2)
        app.event("call.connected", LEG, "2026-09-02 08:45:52", connected_at="2026-09-02 08:45:52")
        reply.json({"data": RECORD, "links": {}})

    app.platform.routes[PATH] = respond_late
    app.event("call.ringing", LEG, "2026-09-02 08:45:50")
    live_poll.read_new_legs(app.context)
    call = facade.read_both()
    assert call is not None
    assert (call["state"], call["connected_at"]) == ("CONNECTED", 1788338752)
    assert call["clid"] == RECORD["clid"]


def test_events_update_a_call_with_values_that_a_strict_parser_rejects(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    unusual = {**RECORD, "src_name": "Ann \ud800", "account": 2**70, "tags": [{"name": "vip"}]}
    app.context.sync_jobs.poll()

    def respond_late(_request: Any, reply: Any) -> None:
        movable_clock.advance(2)
        app.event("call.connected", LEG, "2026-09-02 08:45:52", connected_at="2026-09-02 08:45:52")
        reply.json({"data": unusual, "links": {}})

    app.platform.routes[PATH] = respond_late
    app.event("call.ringing", LEG, "2026-09-02 08:45:50")
    live_poll.read_new_legs(app.context)
    call = facade.read_both()
    assert call == {**unusual, "state": "CONNECTED", "connected_at": 1788338752}
    app.event("call.hold", LEG, "2026-09-02 08:46:10")
    call = facade.read_both()
    assert call is not None
    assert {name: call[name] for name in unusual} == {
        **unusual,
        "state": "ON_HOLD",
        "connected_at": 1788338752,
    }


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_failed_request_of_a_new_call_ends_nothing_and_is_not_repeated(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock, status: int
) -> None:
    app.context.sync_jobs.poll()
    app.platform.respond(PATH, {"message": "no", "errors": []}, status)
    app.event("call.ringing", LEG, "2026-09-02 08:45:50")
    with pytest.raises(PlatformError) if status == 503 else nullcontext():
        assert live_poll.read_new_legs(app.context) == 1
    assert live_poll.read_new_legs(app.context) == 0
    assert app.platform.count(PATH) == 1
    call = facade.read_both()
    assert call is not None
    assert call["state"] == "RINGING"
    list_live(app, RECORD)
    movable_clock.advance(15)
    app.context.sync_jobs.poll()
    assert facade.read_both() == RECORD


def test_a_call_that_ended_first_is_not_requested(app: TestApp, facade: LiveCallClient) -> None:
    app.context.sync_jobs.poll()
    app.event("call.ringing", LEG, "2026-09-02 08:45:50")
    app.event("call.missed", LEG, "2026-09-02 08:45:50")
    assert live_poll.read_new_legs(app.context) == 0
    assert app.platform.count(PATH) == 0


def test_many_new_calls_are_read_by_one_poll(app: TestApp, facade: LiveCallClient) -> None:
    app.context.sync_jobs.poll()
    legs = range(LEG, LEG + 11)
    for leg in legs:
        app.event("call.ringing", leg, "2026-09-02 08:45:50")
    list_live(app, *({**RECORD, "id": leg} for leg in legs))
    assert live_poll.read_new_legs(app.context) == 1
    assert [call["clid"] for call in facade.list_calls()] == [RECORD["clid"]] * 11
    assert live_poll.read_new_legs(app.context) == 0
    assert count_reads(app) == 2


def test_a_webhook_starts_the_request_in_the_running_product(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    movable_clock.restore()
    app.product.start()
    wait_for(lambda: read_mirror_headers(facade.get("/calls"))[1] == "true", "the first poll")
    list_live(app, RECORD)
    app.event("call.ringing", LEG, "2026-09-02 08:45:55")
    wait_for(lambda: facade.list_calls()[0].get("clid") == RECORD["clid"], "the platform's record")
    assert facade.read_both() is not None
