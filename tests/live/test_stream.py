from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app, has_request_context
from werkzeug.serving import make_server

from integration.live import stream as stream_module
from integration.live.hub import Hub
from integration.live.stream import Viewer, make_stream
from integration.sqlite.database import Database
from integration.sqlite.transaction import Change


@dataclass
class Event:
    name: str = "message"
    data: Any = None
    id: str | None = None


@dataclass
class Watching:
    """A browser's EventSource, as far as these tests need one."""

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


@dataclass
class Site:
    hub: Hub
    mirror_db: Database
    port: int
    rendered: list[tuple[int, str]]
    viewer: Viewer
    open: list[Watching] = field(default_factory=list)

    def tell(self, *keys: str, topic: str = "call") -> int:
        """Commit one change for each key; the number of the last."""
        return self.mirror_db.write(
            lambda tx: [tx.announce(topic, key, {"state": "ringing"}) for key in keys]
        )[-1]

    def ask(self, method: str = "GET", query: str = "", **headers: str) -> Watching:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(
            method, f"/live/stream{query}", headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        watching = Watching(connection, connection.getresponse())
        self.open.append(watching)
        return watching

    def watch(self, **kw: str) -> Watching:
        """A stream that has begun: what is told from now on is heard."""
        before = self.hub.subscriber_count
        watching = self.ask(**kw)
        assert watching.response.status == 200
        until(lambda: self.hub.subscriber_count > before)
        return watching


def until(true: Callable[[], object], seconds: float = 30) -> None:
    """Wait on a condition."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        threading.Event().wait(0.002)


CHANGES = """CREATE TABLE IF NOT EXISTS _changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, topic TEXT, key TEXT, data TEXT)"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    mirror = Database(tmp_path / "mirror.db", prepare=lambda connection: connection.execute(CHANGES) and None)

    def catch_up(number: int) -> list[Change] | None:
        with mirror.read() as connection:
            newest = connection.execute("SELECT coalesce(max(id), 0) FROM _changes").fetchone()[0]
            rows = connection.execute("SELECT * FROM _changes WHERE id > ? ORDER BY id", (number,)).fetchall()
        if number > newest:
            return None
        return [Change(row["id"], row["topic"], row["key"], json.loads(row["data"])) for row in rows]

    hub = Hub(catch_up, "abc")
    mirror.on_commit = hub.publish
    rendered: list[tuple[int, str]] = []

    def present(change: Change, person: str) -> list[tuple[str, dict[str, Any]]]:
        rendered.append((change.number, person))
        assert current_app.name == __name__, "pages are rendered by the application's templates"
        assert not has_request_context(), "what is shown to many is nobody's"
        if change.topic == "nothing":
            return []
        if change.topic == "broken":
            raise KeyError("no such row")
        events: list[tuple[str, dict[str, Any]]] = [
            ("call", {"id": change.key, "html": "<li>\nAnn\u2028</li>"})
        ]
        return [("count", {"missed": 1}), *events] if change.topic == "two" else events

    app = Flask(__name__)
    shown = Site(hub, mirror, 0, rendered, Viewer("ann", "agents", lambda: True))
    app.register_blueprint(make_stream(hub, present, 110, find_viewer=lambda: shown.viewer))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    shown.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield shown
    hub.close()
    for watching in shown.open:
        watching.connection.close()
    server.shutdown()
    thread.join()
    server.server_close()
    mirror.close()


def test_a_change_arrives_as_a_named_event_with_its_id(site: Site) -> None:
    watching = site.watch()
    assert watching.response.headers["Content-Type"].startswith("text/event-stream")
    number = site.tell("7")
    event = watching.next()
    assert event == Event("call", {"id": "7", "html": "<li>\nAnn\u2028</li>"}, f"abc-{number}")


def test_a_browser_that_comes_back_gets_what_it_missed_and_no_more(site: Site) -> None:
    first = site.tell("1")
    site.tell("2", "3")
    watching = site.watch(Last_Event_ID=f"abc-{first}")
    assert [watching.next().data["id"] for _ in range(2)] == ["2", "3"]  # type: ignore[union-attr]
    site.tell("4")
    assert watching.next().data["id"] == "4"  # type: ignore[union-attr]


def test_a_page_may_say_in_the_address_where_it_is(site: Site) -> None:
    first = site.tell("1")
    site.tell("2")
    assert site.watch(query=f"?after=abc-{first}").next().data["id"] == "2"  # type: ignore[union-attr]


@pytest.mark.parametrize("after", ["other-1", "abc-99", "nonsense"])
def test_an_unknown_id_gets_reload_and_the_end(site: Site, after: str) -> None:
    watching = site.ask(Last_Event_ID=after)
    event = watching.next()
    assert event is not None
    assert event.name == "reload"
    assert watching.last_id is None
    assert watching.next() is None


def test_of_many_missed_changes_of_one_call_only_the_last_is_rendered(site: Site) -> None:
    first = site.tell("1")
    last = site.tell("1", "2", "1", "1")
    watching = site.watch(Last_Event_ID=f"abc-{first}")
    assert [watching.next().data["id"] for _ in range(2)] == ["2", "1"]  # type: ignore[union-attr]
    assert [number for number, _ in site.rendered] == [last - 2, last]


def test_the_id_stands_on_the_last_event_of_a_change(site: Site) -> None:
    watching = site.watch()
    number = site.tell("1", topic="two")
    first, second = watching.next(), watching.next()
    assert first is not None
    assert second is not None
    assert (first.name, first.id) == ("count", None)
    assert (second.name, second.id) == ("call", f"abc-{number}")


def test_what_cannot_be_shown_makes_the_page_load_again(site: Site) -> None:
    watching = site.watch()
    site.tell("1", topic="broken")
    event = watching.next()
    assert event is not None
    assert event.name == "reload"


def test_silence_is_kept_alive_and_moves_the_id_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = site.watch()
    number = site.tell("1", topic="nothing")
    event = watching.next()
    assert event == Event("comment", None, f"abc-{number}")
    monkeypatch.setattr(stream_module, "KEEP_ALIVE", 0.01)
    another = site.watch()
    assert another.next().name == "beat"


def test_someone_no_longer_welcome_is_sent_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "KEEP_ALIVE", 0.01)
    welcome = [True]
    site.viewer = Viewer("ann", "agents", lambda: welcome[0])
    watching = site.watch()
    assert watching.next().name == "beat"
    welcome[0] = False
    events = [event.name for event in islice(iter(watching.next, None), 500)]
    assert "reload" in events
    assert events[-1] == "reload"


def test_one_too_many_is_told_when_to_come_again_and_a_place_is_freed(site: Site) -> None:
    streams = [site.watch() for _ in range(110)]
    refused = site.ask()
    assert refused.response.status == 503
    assert int(refused.response.headers["Retry-After"]) > 0
    streams[0].response.close()
    streams[0].connection.close()

    def one_left() -> bool:
        site.tell("1")
        return site.hub.subscriber_count < 110

    until(one_left)
    assert site.watch().response.status == 200


def test_a_head_request_takes_no_place(site: Site) -> None:
    for _ in range(120):
        asked = site.ask("HEAD")
        assert asked.response.status == 200
        asked.connection.close()
    assert site.hub.subscriber_count == 0


def test_closing_the_hub_ends_every_stream_at_once(site: Site) -> None:
    streams = [site.watch() for _ in range(20)]
    begun = time.monotonic()
    site.hub.close()
    assert [watching.next() for watching in streams] == [None] * 20
    assert time.monotonic() - begun < stream_module.KEEP_ALIVE
    until(lambda: site.hub.subscriber_count == 0)


def test_a_hundred_dashboards_hear_at_once_and_cost_one_rendering(site: Site) -> None:
    streams = [site.watch() for _ in range(100)]
    delays: list[float] = []
    told = [0.0]

    def hear(watching: Watching) -> None:
        event = watching.next()
        assert event is not None
        delays.append(time.monotonic() - told[0])

    for key in "12345":
        threads = [threading.Thread(target=hear, args=(watching,)) for watching in streams]
        for thread in threads:
            thread.start()
        told[0] = time.monotonic()
        site.tell(key)
        for thread in threads:
            thread.join(30)
    assert len(delays) == 500
    assert len(site.rendered) == 5
    # The promise is 50 ms at p50, measured by the benchmarks: here, others may be at work.
    assert sorted(delays)[250] < 5


def test_those_who_see_other_things_are_rendered_apart(site: Site) -> None:
    ann = site.watch()
    site.viewer = Viewer("ben", "admins", lambda: True)
    ben = site.watch()
    site.tell("1")
    assert ann.next() is not None
    assert ben.next() is not None
    assert sorted(person for _, person in site.rendered) == ["ann", "ben"]
