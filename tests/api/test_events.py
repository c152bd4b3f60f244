"""Events of the own API, through HTTP: order, cursors, waits, gaps, and what a key may see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from integration.access import keys
from integration.access.keys import KeyLimits
from integration.api import events as api_events
from integration.api.events import MAX_WAITS_OF_KEY
from integration.live.hub import Subscription
from integration.mirror.records import change_log
from integration.web.inflight import BLOCKING_THREADS
from integration.workspace import app_changes
from integration.workspace.callback_following import update_from_mirror
from tests.support.application import TestApp, running_app
from tests.support.applications.shared_app import SharedApp
from tests.support.harness import ROOT
from tests.support.people import CALLER

ANN, BOB = 1000005, 1000006
PAYLOADS = ROOT / "tests" / "fixtures" / "platform"


@pytest.fixture
def office(shared_app: SharedApp) -> SharedApp:
    """Three calls: of Ann, of Bob, and of a group."""
    shared_app.call(101, "2026-09-02 08:00:00", user_id=ANN, user_name="Ann Example", change_no=1)
    shared_app.call(102, "2026-09-02 09:00:00", user_id=BOB, outcome="missed", change_no=2)
    shared_app.call(103, "2026-09-02 10:00:00", change_no=3)
    return shared_app


def announce(app: SharedApp, key: int, event: str | None, topic: str = "call", **data: Any) -> str:
    """Commit a change as the mirror does, and return its id. `event`: None for a change that is none."""
    content = {**({} if event is None else {"event": event}), **data}
    number = app.mirror_db.write(lambda tx: tx.announce(topic, key, content))
    app.mirror_db.write(lambda tx: tx.execute("UPDATE _calls SET change_no = ? WHERE id = ?", (number, key)))
    if data.get("left") is not None:
        app.insert("_left_calls", user_id=data["left"], id=key, change_no=number)
    return f"{app.context.live_hub.epoch}-{number}"


def request(app: SharedApp, query: str = "", key: dict[str, str] | None = None) -> Any:
    return app.client.get(f"/api/events{query}", headers=app.headers if key is None else key)


def read(app: SharedApp, query: str = "", key: dict[str, str] | None = None) -> tuple[list[Any], str]:
    response = request(app, query, key)
    assert response.status_code == 200, response.text
    assert "Retry-After" not in response.headers
    return response.json["data"], response.json["next"]


def list_events(app: SharedApp, query: str, key: dict[str, str] | None = None) -> list[tuple[str, int]]:
    return [(event["type"], event["data"]["id"]) for event in read(app, query, key)[0]]


def send(app: TestApp, query: str, key: dict[str, str]) -> HTTPConnection:
    """Send a request to the server of the application, without reading its response."""
    address = urlsplit(app.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    connection.request("GET", f"/api/events{query}", headers=key)
    return connection


def receive(connection: HTTPConnection) -> tuple[HTTPResponse, Any]:
    response = connection.getresponse()
    return response, json.loads(response.read())


def until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline, "the condition is not met after 30 s"
        threading.Event().wait(0.002)


def test_events_are_returned_in_order_from_the_cursor_on(office: SharedApp) -> None:
    announce(office, 101, "call.ringing")
    empty, start = read(office)
    assert empty == [], "without a cursor only later events are returned"
    ids = [
        announce(office, 101, "call.answered"),
        announce(office, 7, None, topic="media"),
        announce(office, 102, "call.ended", late=True),
        announce(office, 103, "call.updated", topic="past_call", changed=["labels", "charge"]),
    ]
    del ids[1]
    events, following = read(office, f"?after={start}")
    assert [(event["id"], event["type"], event["data"]["id"]) for event in events] == [
        (ids[0], "call.answered", 101), (ids[1], "call.ended", 102), (ids[2], "call.updated", 103),
    ]  # fmt: skip
    assert [(event["data"]["late"], event["data"]["changed"]) for event in events] == [
        (False, []), (True, []), (False, ["labels", "charge"]),
    ]  # fmt: skip
    assert read(office, f"?after={following}") == ([], following)
    assert list_events(office, f"?after={ids[0]}") == [("call.ended", 102), ("call.updated", 103)]
    first, second = read(office, f"?after={start}&limit=2")
    assert [event["id"] for event in first] == ids[:2]
    assert list_events(office, f"?after={second}&limit=2") == [("call.updated", 103)]
    assert list_events(office, f"?after={start}&kinds=call.ended,message.sent") == [("call.ended", 102)]


def test_a_call_has_its_present_columns_and_what_the_key_may_read(office: SharedApp) -> None:
    office.leg(101, started_at="2026-09-02 08:00:00", user_id=ANN)
    office.insert("monitors", id=7001, live_id=101, timestamp="2026-09-02 08:00:07", user_id=ANN)
    _, start = read(office)
    number = announce(office, 101, "call.ended")
    [event], _ = read(office, f"?after={start}")
    [call] = office.client.get("/api/calls?person=1000005", headers=office.headers).json["data"]
    assert event["data"] == {
        **call,
        "recordings": [{"id": 7001, "path": "/monitors/7001.mp3"}],
        "changed": [],
        "late": False,
        "url": "http://127.0.0.1:8000/calls/101",
    }
    assert (event["data"]["user_name"], event["data"]["outcome"], event["data"]["started_local"]) == (
        "Ann Example", "answered", "2026-09-02 09:00:00",
    )  # fmt: skip
    plain = office.add_key("plain", limits=KeyLimits())
    [shown], _ = read(office, f"?after={start}", plain)
    assert (shown["id"], shown["data"]["recordings"]) == (number, [{"id": 7001}])


def test_a_wait_ends_with_the_next_event_and_not_with_other_changes(office: SharedApp) -> None:
    _, start = read(office)
    waiting = send(office, f"?after={start}&kinds=call.ended&wait=30", office.headers)
    until(lambda: office.context.event_hub.subscriber_count == 1)
    announce(office, 7, None, topic="media")
    announce(office, 101, "call.ringing")
    ended = announce(office, 101, "call.ended")
    response, body = receive(waiting)
    assert (response.status, [event["id"] for event in body["data"]], body["next"]) == (200, [ended], ended)
    until(lambda: office.context.event_hub.subscriber_count == 0)

    waiting = send(office, f"?after={ended}&wait=30", office.headers)
    until(lambda: office.context.event_hub.subscriber_count == 1)
    labelled = announce(office, 101, "call.updated", topic="past_call", changed=["labels"])
    assert receive(waiting)[1]["next"] == labelled, "pages do not receive this topic"
    ended = labelled

    began = time.monotonic()
    assert read(office, f"?after={ended}&wait=1") == ([], ended)
    assert 0.9 < time.monotonic() - began < 20
    head = office.client.head(f"/api/events?after={ended}&wait=30", headers=office.headers)
    assert (head.status_code, time.monotonic() - began < 20) == (200, True)


def test_a_key_of_one_user_learns_nothing_of_other_calls(office: SharedApp) -> None:
    ann = office.add_key("ann", user=ANN)
    office.insert("sms", id=9001, user_id=ANN, created_at="2026-09-02 09:00:01", type="I", message="Hello")
    office.insert("sms", id=9002, user_id=BOB, created_at="2026-09-02 09:00:01", type="I", message="Hello")
    announce(office, 101, "call.ringing")
    before = request(office, key=ann).json
    announce(office, 102, "call.ringing")
    announce(office, 103, "call.ringing")
    announce(office, 9002, "message.received", topic="sms")
    announce(office, 102, None, topic="call_gone", into=103)
    assert request(office, key=ann).json == before, "the present cursor counts no changes of others"
    start = before["next"]
    assert read(office, f"?after={start}", ann) == ([], start)
    # A cursor above the newest change is as good as one of a change of somebody else.
    above = f"{office.context.live_hub.epoch}-999"
    assert request(office, f"?after={above}", ann).json == {"data": [], "next": above}

    waiting = send(office, f"?after={start}&wait=30", ann)
    until(lambda: office.context.event_hub.subscriber_count == 1)
    announce(office, 102, "call.ended")
    message = announce(office, 9001, "message.received", topic="sms")
    _, body = receive(waiting)
    assert [(event["id"], event["data"]["text"]) for event in body["data"]] == [(message, "Hello")]
    own = announce(office, 101, "call.ended")
    assert [event["id"] for event in read(office, f"?after={start}&limit=1", ann)[0]] == [message]
    assert read(office, f"?after={message}", ann)[1] == own

    waiting = send(office, f"?after={own}&wait=1", ann)
    until(lambda: office.context.event_hub.subscriber_count == 1)
    announce(office, 102, "call.updated")
    assert receive(waiting)[1] == {"data": [], "next": own}


def test_a_call_that_leaves_a_user_is_removed_for_this_user_alone(office: SharedApp) -> None:
    ann, bob = (office.add_key(str(user), user=user) for user in (ANN, BOB))
    _, start = read(office)
    announce(office, 102, "call.answered", changed=["user_id"], left=ANN)
    announce(office, 104, None, topic="call_gone", into=101, left=ANN)
    announce(office, 105, None, topic="call_gone", into=102, left=ANN)
    announce(office, 106, None, topic="call_gone", into=None, left=BOB)

    def list_removed(key: dict[str, str], kinds: str = "") -> list[Any]:
        events, _ = read(office, f"?after={start}{kinds}", key)
        return [event["data"] if len(event["data"]) == 2 else event["type"] for event in events]

    removed = [{"id": id_, "merged_into": into} for id_, into in ((104, 101), (105, 102), (106, None))]
    assert list_removed(office.headers) == ["call.answered", *removed]
    assert list_removed(bob) == ["call.answered", removed[2]]
    assert list_removed(ann) == [
        {"id": 102, "merged_into": None},
        removed[0],
        {"id": 105, "merged_into": None},
    ]
    assert list_removed(ann, "&kinds=call.answered") == []


def test_the_webhooks_of_a_call_are_its_life(office: SharedApp) -> None:
    office.clock.set(1788338780)  # 2026-09-02 08:46:20
    _, start = read(office)
    for name in ("initial", "ringing", "connected", "hangup"):
        webhook = (PAYLOADS / f"webhook-call.{name}.json").read_bytes()
        office.context.inbox.receive(webhook).result(30)
        office.apply_webhooks()
    events, after = read(office, f"?after={start}")
    assert [event["type"] for event in events] == ["call.ringing", "call.answered", "call.ended"]
    assert [event["timestamp"] for event in events] == ["2026-09-02T08:46:20Z"] * 3
    call = events[-1]["data"]
    expected = {
        "id": 4278000101, "direction": "in", "outcome": "answered", "state": "ended",
        "started_at": "2026-09-02 08:45:55", "answered_at": "2026-09-02 08:46:02",
        "ended_at": "2026-09-02 08:46:13", "wait_seconds": 7, "talk_seconds": 11,
        "party": "447700900101", "party_e164": "+447700900101", "our_number": "442079460002",
        "legs": 1, "recordings": [], "labels": [], "late": False,
    }  # fmt: skip
    assert {name: call[name] for name in expected} == expected
    assert {"state", "outcome", "ended_at", "talk_seconds"} <= set(call["changed"])

    [cdr] = json.loads((PAYLOADS / "response-cdrs-list-200.json").read_bytes())["data"]
    incoming = {"type": "I", "src": "447700900101", "dst": "442079460002", "destination": "in"}
    office.put("cdrs", {**cdr, **incoming, "user_id": ANN})
    [updated], _ = read(office, f"?after={after}")
    assert (updated["type"], updated["data"]["charge"], "charge" in updated["data"]["changed"]) == (
        "call.updated", 0.006, True,
    )  # fmt: skip


def test_an_unanswered_hunt_group_is_one_missed_call(office: SharedApp) -> None:
    office.clock.set(1788338780)
    _, start = read(office)
    for name in ("missed-leg-not-final", "missed-final"):
        office.context.inbox.receive((PAYLOADS / f"webhook-call.{name}.json").read_bytes()).result(30)
        office.apply_webhooks()
    events, after = read(office, f"?after={start}&kinds=call.ended,call.ringing")
    assert [(event["data"]["id"], event["data"]["outcome"]) for event in events] == [(4278000101, "missed")]

    crm = office.add_key("crm", "write", limits=KeyLimits(rights=frozenset({"workspace"})))
    update_from_mirror(office.app_db, office.mirror_db)
    app_changes.announce(office.app_db, office.mirror_db)
    [opened], after = read(office, f"?after={after}", crm)
    item = opened["data"]
    assert (opened["type"], item["party"], item["state"]) == ("callback.opened", "+447700900101", "open")
    done = office.client.post(f"/api/missed/{item['id']}/done", headers=crm, json={"note": "Called back"})
    assert done.status_code == 200
    app_changes.announce(office.app_db, office.mirror_db)
    [closed], _ = read(office, f"?after={after}", crm)
    assert (closed["type"], closed["data"]["id"], closed["data"]["closed_by"]) == (
        "callback.closed", item["id"], "key crm",
    )  # fmt: skip
    assert "note" not in closed["data"]


def test_kinds_need_the_rights_of_their_records(office: SharedApp) -> None:
    _, start = read(office)
    office.insert("sms", id=9001, created_at="2026-09-02 09:00:01", type="I", message="Hello")
    for key, event, topic in (
        (101, "call.ended", "call"), (9001, "message.received", "sms"), (1, "callback.opened", "callback"),
    ):  # fmt: skip
        announce(office, key, event, topic)
    calls = office.add_key("calls", collections=["cdrs"], limits=KeyLimits())
    assert list_events(office, f"?after={start}", calls) == [("call.ended", 101)]
    workspace = KeyLimits(rights=frozenset({"workspace"}))
    everything = office.add_key("everything", limits=workspace)
    kinds = [("call.ended", 101), ("message.received", 9001), ("callback.opened", 1)]
    assert list_events(office, f"?after={start}", everything) == kinds
    for kind, word in (("message.sent", "collection sms"), ("callback.closed", "'workspace'")):
        refused = request(office, f"?kinds=call.ended,{kind}", calls)
        assert refused.status_code == 403
        assert word in refused.json["message"]
    contacts = office.add_key("contacts", collections=["contacts"], limits=KeyLimits())
    assert request(office, key=contacts).status_code == 403


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("colour=red", 400, "'colour'"),
        ("kinds=call.lost", 400, "'call.lost' is not one of call.ringing"),
        ("kinds=call.ended,,", 400, "'' is not one of"),
        ("limit=501", 400, "from 1 to 500"),
        ("wait=31", 400, "'wait'. '31' is not a number from 0 to 30"),
        ("wait=1.5", 400, "'wait'"),
        ("wait=-1", 400, "'wait'"),
        ("after=12", 400, "'after'"),
        ("after={epoch}", 400, "'after'"),
        ("after={epoch}-x", 400, "'after'"),
        ("after={epoch}-1&after={epoch}-1", 400, "more than once"),
        ("after=0123456789abcdef-1", 410, "/api/calls"),
        ("after={epoch}-99", 410, "/api/calls"),
        ("after={epoch}--99", 410, "/api/calls"),
    ],
)
def test_bad_requests_get_an_error_that_names_it(
    office: SharedApp, query: str, status: int, words: str
) -> None:
    epoch = office.context.live_hub.epoch
    response = request(office, f"?{query.format(epoch=epoch)}")
    assert (response.status_code, list(response.json)) == (status, ["message", "errors"])
    assert words in response.json["message"]


def test_a_reader_behind_the_stored_changes_gets_a_gap_and_then_the_calls(office: SharedApp) -> None:
    office.insert("sms", id=9001, created_at="2026-09-02 09:00:01", type="I", message="Hello")
    office.clock.set(1788350400)  # 2026-09-02 12:00:00
    first = announce(office, 101, "call.ended")
    for event in ("call.ringing", "call.ended"):
        announce(office, 102, event)
    merged = announce(office, 104, None, topic="call_gone", into=101, left=ANN)
    number = int(merged.rpartition("-")[2])
    office.insert("_merged_calls", id=104, into_id=101, change_no=number)
    # A changed directory is no event, but the end of call 103 is lost.
    announce(office, 103, "call.ended")
    office.clock.set(1788357600)  # 2026-09-02 14:00:00
    kept = announce(office, 9001, "message.received", topic="sms")
    announce(office, 103, None)
    oldest = int(kept.rpartition("-")[2])
    office.mirror_db.write(lambda tx: change_log.prune(tx, 2))

    found, after = [], first
    for _ in range(5):
        events, after = read(office, f"?after={after}&limit=1")
        found += events
    assert [(event["type"], event["data"].get("id")) for event in found] == [
        ("gap", None), ("call.updated", 102), ("call.updated", 104), ("message.received", 9001),
        ("call.updated", 103),
    ]  # fmt: skip
    assert found[0]["data"] == {"from": "2026-09-02 08:00:00", "to": "2026-09-02 14:00:00"}
    assert found[2]["data"] == {"id": 104, "merged_into": 101}
    bob = office.add_key("bob", user=BOB)
    [gap, *_], _ = read(office, f"?after={first}", bob)
    assert gap["data"]["from"] == gap["data"]["to"], "the end of a call of Ann is no begin of Bob's gap"
    # A reader that processed an event continues after it, and gets the gap once.
    for position, event in enumerate(found):
        following, _ = read(office, f"?after={event['id']}")
        assert [other["id"] for other in following] == [other["id"] for other in found[position + 1 :]]
    assert int(after.rpartition("-")[2]) == oldest + 1
    next_event = announce(office, 101, "call.updated", changed=["charge"])
    assert [event["id"] for event in read(office, f"?after={after}")[0]] == [next_event]
    messages, _ = read(office, f"?after={first}&kinds=message.received")
    assert [event["type"] for event in messages] == ["gap", "message.received"], "of no kind of calls"
    ann = office.add_key("ann", user=ANN)
    own, own_next = read(office, f"?after={first}", ann)
    assert [(event["type"], event["data"].get("id")) for event in own] == [
        ("gap", None), ("call.updated", 104), ("call.updated", 101),
    ]  # fmt: skip
    assert read(office, f"?after={own_next}", ann) == ([], own_next)


def test_a_key_of_one_user_gets_no_number_of_other_changes(office: SharedApp) -> None:
    carol = office.add_key("carol", user=1000007)
    _, first = read(office, key=carol)
    assert first.endswith("-0"), "no call of Carol has changed"
    ann = office.add_key("ann", user=ANN)
    _, first_of_ann = read(office, key=ann)
    for _ in range(5):
        announce(office, 102, "call.updated", changed=["charge"])
    assert read(office, key=carol)[1] == first
    office.mirror_db.write(lambda tx: change_log.prune(tx, 2))
    for key, cursor in ((carol, first), (ann, first_of_ann)):
        assert read(office, key=key)[1] == cursor
        assert read(office, f"?after={cursor}", key) == ([], cursor), "deleted changes of Bob are no gap"


def test_the_pause_before_a_response_reveals_no_other_calls_and_sends_nothing_to_a_revoked_key(
    office: SharedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "PAUSE_SECONDS", 60.0)
    monkeypatch.setattr(api_events, "MAX_PAUSE_SECONDS", 60.0)
    paused, pause = threading.Event(), Subscription.pause

    def recorded_pause(subscription: Subscription, seconds: float) -> bool:
        paused.set()
        return pause(subscription, seconds)

    monkeypatch.setattr(Subscription, "pause", recorded_pause)
    ann = office.add_key("ann", user=ANN)
    _, start = read(office, key=ann)
    began = time.monotonic()
    waiting = send(office, f"?after={start}&wait=1", ann)
    until(lambda: office.context.event_hub.subscriber_count == 1)
    announce(office, 102, "call.ended")
    assert receive(waiting)[1] == {"data": [], "next": start}
    assert time.monotonic() - began < 6, "a change of Bob does not lengthen the wait"

    paused.clear()
    waiting = send(office, f"?after={start}&wait=30", ann)
    until(paused.is_set)
    announce(office, 101, "call.ended")
    keys.revoke(office.app_db, "ann")
    assert receive(waiting)[0].status == 401


def test_waits_take_places_of_live_streams_and_end_with_their_key(office: SharedApp) -> None:
    hub = office.context.event_hub
    _, start = read(office)
    names = [f"reader {number}" for number in range(BLOCKING_THREADS // 2 // MAX_WAITS_OF_KEY)]
    readers = {name: office.add_key(name) for name in names}
    query = f"?after={start}&wait=30"
    waits = {
        name: [send(office, query, key) for _ in range(MAX_WAITS_OF_KEY)] for name, key in readers.items()
    }
    until(lambda: hub.subscriber_count == BLOCKING_THREADS // 2)

    # Until the last of these answers, the last reader has its place.
    for key in readers.values():
        refused = request(office, query, key)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    full = request(office, query)
    assert (full.status_code, full.json["data"], full.headers["Retry-After"]) == (200, [], "2")
    office.client.set_cookie("session", office.make_token())
    assert office.client.get("/live/stream").status_code == 503

    keys.revoke(office.app_db, names[0])
    for connection in waits.pop(names[0]):
        assert receive(connection)[0].status == 401
    until(lambda: hub.subscriber_count == BLOCKING_THREADS // 2 - MAX_WAITS_OF_KEY)
    ended = announce(office, 101, "call.ended")
    for connection in chain.from_iterable(waits.values()):
        assert receive(connection)[1]["next"] == ended
    until(lambda: hub.subscriber_count == 0)
    assert read(office, f"?after={ended}&wait=1") == ([], ended)


def test_a_stop_of_the_product_ends_waits_with_an_empty_page(tmp_path: Path) -> None:
    with running_app(tmp_path) as app:
        waiting = send(app, "?wait=30", app.headers)
        until(lambda: app.context.event_hub.subscriber_count == 1)
        app.product.close_streams()
        response, body = receive(waiting)
    assert (response.status, body["data"]) == (200, [])


def test_the_example_follows_events_and_continues_after_a_stop(office: SharedApp, tmp_path: Path) -> None:
    user_id, secret = keys.add(office.app_db, "follower", "read")
    variables = {"KEY": f"{user_id}:{secret}", "URL": office.url, "no_proxy": "*"}
    command = [sys.executable, str(ROOT / "examples" / "follow_events.py")]

    @contextmanager
    def follow() -> Iterator[Callable[[], list[str]]]:
        """Run the example. Yields a function that returns kind, call, number and state of the next line."""
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            yield lambda: process.stdout.readline().split()[1:]  # type: ignore[union-attr]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    with follow() as read_line:
        until((tmp_path / "events.cursor").exists)
        until(lambda: office.context.event_hub.subscriber_count)
        ended = announce(office, 101, "call.ended")
        assert read_line() == ["call.ended", "101", CALLER, "ended", "answered"]
        until(lambda: (tmp_path / "events.cursor").read_text() == ended)
    announce(office, 102, "call.ringing")
    announce(office, 102, "call.ended")
    with follow() as read_line:
        assert [read_line()[:2], read_line()[:2]] == [["call.ringing", "102"], ["call.ended", "102"]]
        announce(office, 103, "call.updated")
        assert read_line()[:2] == ["call.updated", "103"]
