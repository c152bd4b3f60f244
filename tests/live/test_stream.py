"""The live stream over HTTP: events, reconnects, limits and rendering."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import current_app, has_request_context

from integration import web_app
from integration.access import sessions
from integration.access.people import Person
from integration.live import stream as stream_module
from integration.live.hub import Hub
from integration.sqlite.transaction import Change
from integration.web.inflight import BLOCKING_THREADS
from tests.support.application import TestApp, running_app
from tests.support.people import ALICE, ERIN, Member

MAX_STREAMS = BLOCKING_THREADS // 2


@dataclass
class Event:
    name: str = "message"
    data: Any = None
    id: str | None = None


@dataclass
class Watching:
    """EventSource of a browser, with the functions of these tests only."""

    connection: HTTPConnection
    response: HTTPResponse
    last_id: str | None = None
    comments: list[str] = field(default_factory=list)

    def next(self) -> Event | None:
        """The next event; None when the stream has ended."""
        event, data = Event(), []
        while True:
            raw = self.response.readline()
            if not raw:
                return None
            line = raw.decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments.append(line)
            elif name == "event":
                event.name = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                self.last_id = event.id = value
            elif line == "":
                if data:
                    event.data = json.loads("\n".join(data))
                    return event
                event, data = Event(), []
                if self.comments:
                    return Event("comment", id=self.last_id)

    def has_event(self, name: str) -> bool:
        """Read until an event with this name; False when the stream has ended."""
        while (event := self.next()) is not None:
            if event.name == name:
                return True
        return False


@dataclass
class Stream:
    """The live stream of the product.

    `rendered` has number and e-mail address of each rendered change.
    """

    app: TestApp
    hub: Hub
    rendered: list[tuple[int, str]]
    member: Member = ERIN
    browser: str = ""
    """Session that all requests send; without it each has a session of its own."""
    open: list[Watching] = field(default_factory=list)

    def announce(self, *keys: str, topic: str = "call") -> int:
        """Commit one change for each key. Returns the number of the last."""
        return self.app.mirror_db.write(
            lambda tx: [tx.announce(topic, key, {"state": "ringing"}) for key in keys]
        )[-1]

    def request(self, method: str = "GET", query: str = "", **headers: str) -> Watching:
        """Request the stream as `member`, in the session `browser`."""
        url = urlsplit(self.app.url)
        connection = HTTPConnection(url.hostname or "", url.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Cookie"] = f"session={self.browser or self.app.make_token(self.member)}"
        connection.request(method, f"/live/stream{query}", headers=named)
        watching = Watching(connection, connection.getresponse())
        self.open.append(watching)
        return watching

    def watch(self, **options: str) -> Watching:
        """Open a stream, which sends every later change."""
        before = self.hub.subscriber_count
        watching = self.request(**options)
        assert watching.response.status == 200
        until(lambda: self.hub.subscriber_count > before)
        return watching


def until(true: Callable[[], object], seconds: float = 30) -> None:
    """Wait on a condition."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"condition not met after {seconds} s"
        threading.Event().wait(0.002)


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    rendered: list[tuple[int, str]] = []

    def render(change: Change, person: Person) -> list[tuple[str, dict[str, Any]]]:
        rendered.append((change.number, person.email))
        assert current_app.name == "switchroom", "pages are rendered by the application's templates"
        assert not has_request_context(), "a shared rendering cannot depend on a request"
        if change.topic == "nothing":
            return []
        if change.topic == "broken":
            raise KeyError("no such row")
        html = "x" * 200_000 if change.topic == "large" else "<li>\nAnn\u2028</li>"
        events: list[tuple[str, dict[str, Any]]] = [("call", {"id": change.key, "html": html})]
        return [("count", {"missed": 1}), *events] if change.topic == "two" else events

    monkeypatch.setattr(web_app, "render_change", render)
    with running_app(tmp_path) as app:
        stream = Stream(app, app.context.live_hub, rendered)
        yield stream
        app.product.close_streams()
        for watching in stream.open:
            watching.connection.close()


def test_a_change_is_named_events_of_which_the_last_has_its_id(stream: Stream) -> None:
    watching = stream.watch()
    assert watching.response.headers["Content-Type"].startswith("text/event-stream")
    number = stream.announce("7", topic="two")
    assert watching.next() == Event("count", {"missed": 1})
    row = {"id": "7", "html": "<li>\nAnn\u2028</li>"}
    assert watching.next() == Event("call", row, stream.hub.event_id(number))


def test_a_reconnect_gets_the_last_of_the_missed_changes_of_each_call(stream: Stream) -> None:
    before = stream.hub.event_id(stream.announce("1"))
    last = stream.announce("1", "2", "1", "1")
    streams = stream.watch(Last_Event_ID=before), stream.watch(query=f"?after={before}")
    for watching in streams:
        assert [watching.next().data["id"] for _ in range(2)] == ["2", "1"]  # type: ignore[union-attr]
    assert [number for number, _ in stream.rendered] == [last - 2, last]
    stream.announce("4")
    assert streams[0].next().data["id"] == "4"  # type: ignore[union-attr]


def test_an_unknown_event_id_gets_reload_and_ends_the_stream(stream: Stream) -> None:
    watching = stream.request(Last_Event_ID="other-1")
    assert watching.next() == Event("reload", {})
    assert watching.last_id is None
    assert watching.next() is None


def test_a_change_that_fails_to_render_sends_reload(stream: Stream) -> None:
    watching = stream.watch()
    stream.announce("1", topic="broken")
    assert watching.next() == Event("reload", {})


def test_a_change_without_event_advances_the_id_and_an_idle_stream_gets_beats(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = stream.watch()
    number = stream.announce("1", topic="nothing")
    assert watching.next() == Event("comment", None, stream.hub.event_id(number))
    monkeypatch.setattr(stream_module, "KEEP_ALIVE", 0.01)
    another = stream.watch()
    assert another.next().name == "beat"


def test_streams_that_began_together_get_their_heartbeats_one_by_one(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "KEEP_ALIVE", 3.0)

    def measure(watching: Watching, begun: float) -> float:
        watching.next()
        return time.monotonic() - begun

    with ThreadPoolExecutor(20) as executor:
        waits = [executor.submit(measure, stream.watch(), time.monotonic()) for _ in range(20)]
        seconds = [wait.result() for wait in waits]
    assert max(seconds) - min(seconds) > 0.4, "of 1.2"


def test_a_revoked_session_gets_reload_and_ends_the_stream(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "KEEP_ALIVE", 0.01)
    watching = stream.watch()
    assert watching.next().name == "beat"
    sessions.revoke_all(stream.app.app_db, stream.app.add(ERIN).id)
    assert [event.name for event in islice(iter(watching.next, None), 500)][-1] == "reload"


def test_a_stream_above_the_limit_gets_retry_after_until_one_closes(stream: Stream) -> None:
    streams = [stream.watch() for _ in range(MAX_STREAMS)]
    refused = stream.request()
    assert refused.response.status == 503
    assert int(refused.response.headers["Retry-After"]) > 0
    streams[0].response.close()
    streams[0].connection.close()

    def is_below_limit() -> bool:
        stream.announce("1")
        return stream.hub.subscriber_count < MAX_STREAMS

    until(is_below_limit)
    assert stream.watch().response.status == 200


def test_a_fifth_stream_of_a_browser_displaces_the_oldest(stream: Stream) -> None:
    other = [stream.watch() for _ in range(5)]
    stream.browser = stream.app.make_token(ERIN)
    streams = [stream.watch() for _ in range(4)]
    fifth = stream.request()
    assert fifth.response.status == 200
    assert streams[0].has_event("replaced")
    until(lambda: stream.hub.subscriber_count == 9)
    stream.announce("7")
    for watching in (*other, *streams[1:], fifth):
        assert watching.has_event("call")


def test_a_displaced_page_gets_a_place_when_one_is_free_and_displaces_none(stream: Stream) -> None:
    stream.browser = stream.app.make_token(ERIN)
    streams = [stream.watch() for _ in range(4)]
    assert stream.request(query="?free").response.status == 204
    streams[2].response.close()
    streams[2].connection.close()
    until(lambda: stream.request(query="?free").response.status == 200)
    stream.announce("7")
    for number in (0, 1, 3):
        assert streams[number].has_event("call")


def test_a_head_request_opens_no_stream(stream: Stream) -> None:
    for _ in range(MAX_STREAMS + 1):
        watching = stream.request("HEAD")
        assert watching.response.status == 200
        watching.connection.close()
    assert stream.hub.subscriber_count == 0


def test_closing_the_hub_ends_every_stream_at_once(stream: Stream) -> None:
    streams = [stream.watch() for _ in range(20)]
    begun = time.monotonic()
    stream.hub.close()
    assert [watching.next() for watching in streams] == [None] * 20
    assert time.monotonic() - begun < stream_module.KEEP_ALIVE
    until(lambda: stream.hub.subscriber_count == 0)


@pytest.mark.exhaustive
def test_a_hundred_streams_share_one_rendering_per_change(stream: Stream) -> None:
    streams = [stream.watch() for _ in range(100)]
    for key in "12345":
        stream.announce(key)
        assert [watching.next().data["id"] for watching in streams] == [key] * 100  # type: ignore[union-attr]
    assert len(stream.rendered) == 5


def test_users_with_different_rights_get_separate_renderings(stream: Stream) -> None:
    agent = stream.watch()
    stream.member = ALICE
    administrator = stream.watch()
    stream.announce("1")
    assert agent.next() is not None
    assert administrator.next() is not None
    assert sorted(person for _, person in stream.rendered) == [ALICE.email, ERIN.email]


@pytest.mark.parametrize(("topic", "renderings"), [("two", 10), ("large", 20)])
def test_renderings_are_kept_up_to_a_megabyte(stream: Stream, topic: str, renderings: int) -> None:
    """Of ten changes with 200 KB each, five fit.

    A viewer that reads them in order finds none of them.
    """
    before = stream.announce("0", topic="nothing")
    first = stream.watch()
    last = stream.announce(*"abcdefghij", topic=topic)
    while first.last_id != stream.hub.event_id(last):
        assert first.next() is not None
    # Opened after the first has read all, or both could share renderings.
    second = stream.watch(query=f"?after={stream.hub.event_id(before)}")
    while second.last_id != stream.hub.event_id(last):
        assert second.next() is not None
    assert len([number for number, _ in stream.rendered if number > before]) == renderings
