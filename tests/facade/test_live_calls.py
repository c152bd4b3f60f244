"""Live calls from the mirror: list and record agree, and cost the platform only polls.

The expected ages and states are derived by hand from the times in each test.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import requests

from integration.core.errors import PlatformError
from integration.sync.reading import live_poll
from tests.support.application import TestApp
from tests.support.clock import Clock

LEG = 4278000101
PATH = f"/calls/{LEG}"

RECORD: dict[str, Any] = {
    "id": LEG,
    "state": "RINGING",
    "src": "447700900101",
    "src_id": "0",
    "src_ua": "",
    "dst": "442079460002",
    "dst_id": "10002",
    "dst_name": "Ann Example",
    "dst_rate": 0.035,
    "clid": '"+447700900101" <+447700900101>',
    "start_time": 1788338755,
    "connected_at": None,
    "monitor_state": 0,
}
"""A live call as `/calls` lists it. `start_time` is 2026-09-02 08:45:55 UTC."""


class LiveCallClient:
    """HTTP client of the facade, with a key of scope `read`."""

    def __init__(self, app: TestApp) -> None:
        self._app = app
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, path: str, headers: dict[str, str] | None = None) -> requests.Response:
        url = self._app.url + self._app.base + path
        return self._session.get(url, headers={**self._app.headers, **(headers or {})}, timeout=20)

    def list_calls(self) -> list[dict[str, Any]]:
        response = self.get("/calls")
        assert response.status_code == 200
        body = response.json()
        assert body["total"] == len(body["data"])
        return list(body["data"])

    def read_both(self, leg: int = LEG) -> dict[str, Any] | None:
        """The live call, or None: as the list and as its own path return it."""
        listed = [call for call in self.list_calls() if call["id"] == leg]
        response = self.get(f"/calls/{leg}")
        if not listed:
            assert response.status_code == 404
            return None
        assert response.status_code == 200
        assert response.json()["data"] == listed[0]
        return listed[0]


def list_live(app: TestApp, *records: dict[str, Any]) -> None:
    """Let the platform list these live calls, and return them at their own paths."""
    app.platform.respond("/calls", {"data": list(records), "total": len(records)})
    for record in records:
        app.platform.respond(f"/calls/{record['id']}", {"data": record, "links": {}})


def count_reads(app: TestApp) -> int:
    """Number of requests of live calls that the platform received."""
    return sum(request.path.startswith("/calls") for request in app.platform.requests)


def read_mirror_headers(response: requests.Response) -> tuple[str | None, str | None]:
    return response.headers.get("X-Mirror-Age"), response.headers.get("X-Mirror-Complete")


@pytest.fixture
def app(own_app: TestApp) -> TestApp:
    return own_app


START = "2026-09-02 08:45:50"


@pytest.fixture(autouse=True)
def start(movable_clock: Clock) -> None:
    movable_clock.freeze(START)


@pytest.fixture
def facade(app: TestApp) -> LiveCallClient:
    app.platform.respond("/calls", {"data": [], "total": 0})
    return LiveCallClient(app)


# --- cost and age ----------------------------------------------------------------------------------------


def test_sixty_reads_in_six_seconds_cost_the_polls_only(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    list_live(app, RECORD)
    for number in range(60):
        if number % 20 == 0:
            app.context.sync_jobs.poll()
        assert facade.list_calls() == [RECORD]
        assert facade.get(PATH).json() == {"data": RECORD, "links": {"self": app.base + PATH}}
        movable_clock.advance(0.1)
    assert count_reads(app) == 3


def test_the_age_counts_from_the_last_poll_or_event(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    movable_clock.advance(4)
    assert read_mirror_headers(facade.get("/calls")) == ("4", "true")
    movable_clock.advance(1)
    app.event("call.ringing", LEG, "2026-09-02 08:45:55")
    movable_clock.advance(7)
    assert read_mirror_headers(facade.get("/calls")) == ("7", "true")
    assert read_mirror_headers(facade.get(PATH)) == ("7", "true")
    list_live(app, RECORD)
    app.context.sync_jobs.poll()
    movable_clock.advance(3)
    assert read_mirror_headers(facade.get("/calls")) == ("3", "true")
    assert read_mirror_headers(facade.get(PATH)) == ("3", "true")


def test_until_the_first_poll_list_and_record_are_read_through(app: TestApp, facade: LiveCallClient) -> None:
    app.event("call.initial", LEG, "2026-09-02 08:45:50")
    list_live(app, RECORD)
    assert facade.get("/calls").json() == {"data": [RECORD], "total": 1}
    assert facade.get(PATH).json() == {"data": RECORD, "links": {"self": app.base + PATH}}
    assert count_reads(app) == 2
    app.context.sync_jobs.poll()
    assert facade.read_both() == RECORD
    assert count_reads(app) == 3


# --- outages ---------------------------------------------------------------------------------------------


def test_an_unreachable_platform_leaves_the_last_list_with_its_age(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    app.platform.fail()
    movable_clock.advance(300)
    assert read_mirror_headers(facade.get("/calls")) == ("300", "true"), "no poll has failed yet"
    with pytest.raises(PlatformError):
        app.context.sync_jobs.poll()
    response = facade.get("/calls")
    assert (response.status_code, response.json()) == (200, {"data": [], "total": 0})
    assert read_mirror_headers(response) == ("300", "false")
    app.event("call.ringing", LEG, "2026-09-02 08:50:50")
    movable_clock.advance(2)
    response = facade.get(PATH)
    assert (response.status_code, response.json()["data"]["state"]) == (200, "RINGING")
    assert read_mirror_headers(response) == read_mirror_headers(facade.get("/calls")) == ("2", "false")
    list_live(app, RECORD)
    movable_clock.advance(400)
    app.context.sync_jobs.poll()
    assert read_mirror_headers(facade.get("/calls")) == read_mirror_headers(facade.get(PATH)) == ("0", "true")
    assert facade.read_both() == RECORD


def test_a_list_that_the_platform_refuses_is_not_served_from_the_mirror(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    app.platform.respond("/calls", {"message": "Access denied", "errors": []}, 403)
    movable_clock.advance(300)
    app.context.sync_jobs.poll()
    assert facade.get("/calls").status_code == 403


# --- list and record agree -------------------------------------------------------------------------------


def test_list_and_record_agree_from_the_first_event_to_the_end(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    states = []
    for second, name in ((55, "initial"), (56, "ringing"), (57, "connected"), (58, "hold"), (59, "unhold")):
        movable_clock.set(f"2026-09-02 08:45:{second}")
        app.event(f"call.{name}", LEG, f"2026-09-02 08:45:{second}")
        call = facade.read_both()
        assert call is not None
        states.append(call["state"])
    assert states == ["INITIAL", "RINGING", "CONNECTED", "ON_HOLD", "CONNECTED"]
    list_live(app, {**RECORD, "state": "CONNECTED"})
    movable_clock.set("2026-09-02 08:46:13")
    app.event("call.hangup", LEG, "2026-09-02 08:46:13")
    assert facade.read_both() is None, "although the platform still lists it"
    assert count_reads(app) == 1


def test_a_call_that_ends_behind_our_back_leaves_list_and_record(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    list_live(app, RECORD)
    app.context.sync_jobs.poll()
    assert facade.read_both() == RECORD
    app.platform.respond("/calls", {"data": [], "total": 0})
    app.platform.respond(PATH, {"message": "Not found", "errors": []}, 404)
    movable_clock.advance(15)
    app.context.sync_jobs.poll()
    reads = count_reads(app)
    assert facade.read_both() is None
    assert count_reads(app) == reads
    list_live(app, RECORD)
    movable_clock.advance(300)
    app.context.sync_jobs.poll()
    assert facade.read_both() == RECORD, "an end by inference is reverted"


def test_an_unknown_call_is_requested_once_in_five_seconds(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()
    app.platform.respond(PATH, {"message": "Not found", "errors": []}, 404)
    assert [facade.get(PATH).status_code for _ in range(3)] == [404, 404, 404]
    assert app.platform.count(PATH) == 1
    app.event("call.ringing", LEG, "2026-09-02 08:45:50")
    assert facade.read_both() is not None, "an event is newer than the cached 404"
    movable_clock.advance(6)
    assert facade.get(f"/calls/{LEG + 1}").status_code == 404
    assert app.platform.count(f"/calls/{LEG + 1}") == 1


def test_a_call_that_ends_while_its_record_is_in_transit_is_not_listed(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    app.context.sync_jobs.poll()

    def respond_late(_request: Any, reply: Any) -> None:
        app.event("call.ringing", LEG, "2026-09-02 08:45:50")
        app.event("call.hangup", LEG, "2026-09-02 08:45:50")
        reply.json({"data": RECORD, "links": {}})

    app.platform.routes[PATH] = respond_late
    assert facade.get(PATH).status_code == 200, "the platform's response"
    assert facade.read_both() is None


def test_a_change_through_the_facade_does_not_freeze_the_record(
    app: TestApp, facade: LiveCallClient, movable_clock: Clock
) -> None:
    list_live(app, RECORD)
    app.context.sync_jobs.poll()
    changed = {"id": LEG, "state": "RINGING", "labels": ["VIP"], "action_url": "https://crm.example.com/7"}
    app.platform.respond(PATH, {"data": changed, "links": {}})
    writer = app.add_key("writer", "write")
    response = app.client.patch(f"{app.base}{PATH}", json={"labels": ["VIP"]}, headers=writer)
    assert response.status_code == 200
    assert facade.read_both() == {**RECORD, **changed}
    movable_clock.advance(12)
    app.event("call.connected", LEG, "2026-09-02 08:46:02", connected_at="2026-09-02 08:46:02")
    call = facade.read_both()
    assert call is not None
    assert (call["state"], call["connected_at"], call["labels"]) == ("CONNECTED", 1788338762, ["VIP"])
    app.platform.routes[PATH] = lambda _request, reply: reply.content(b"", "text/plain", 204)
    assert app.client.delete(f"{app.base}{PATH}", headers=writer).status_code == 204
    app.platform.respond(PATH, {"message": "Not found", "errors": []}, 404)
    assert facade.read_both() is None


def test_keys_of_one_user_or_other_collections_see_no_live_calls(
    app: TestApp, facade: LiveCallClient
) -> None:
    list_live(app, RECORD)
    app.context.sync_jobs.poll()
    for key in (app.add_key("own", user=10002), app.add_key("history", collections=["cdrs"])):
        for path in ("/calls", PATH, "/calls/4278000999"):
            assert facade.get(path, key).status_code == 403
            assert facade.get(path, {**key, "Cache-Control": "no-cache"}).status_code == 403
    calls_only = app.add_key("wall", collections=["calls"])
    assert facade.get("/calls", calls_only).json()["data"] == [RECORD]
    assert count_reads(app) == 1


# --- calls that only webhooks reported -------------------------------------------------------------------


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
