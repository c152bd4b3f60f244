"""/live/stream: Server-Sent Events. Each stream holds a thread of the server, so their number is bounded."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Flask, Response, current_app, jsonify, request

from integration.core import clock
from integration.core.errors import error_body
from integration.live.hub import Closed, Hub, Lost, Subscription
from integration.sqlite.transaction import Change

log = logging.getLogger(__name__)

KEEP_ALIVE = 15.0
"""Seconds at most between two frames: proxies cut what is silent for longer, and a browser that hears nothing
for much longer knows that its connection died, as after a sleep."""
RETRY_MILLISECONDS = 2000
FULL_RETRY_SECONDS = 10

_REMEMBERED = 1024
_RENDERING_SECONDS = 10.0

Present = Callable[[Change, Any], list[tuple[str, dict[str, Any]]]]
Beat = Callable[[], dict[str, Any]]
"""What the event `beat` tells every viewer, every KEEP_ALIVE seconds; called in an application context."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who watches. Viewers of equal `visibility` are shown the same; `welcome()`: may they go on?"""

    person: Any
    visibility: Hashable
    welcome: Callable[[], bool]


@dataclass(slots=True)
class _Rendered:
    ready: threading.Event = field(default_factory=threading.Event)
    frames: str | None = None


class Renderer:
    """`present(change, person)` as text of the stream, once per change and visibility: a hundred dashboards
    cost one rendering. It runs in an application context, but in nobody's request: it is shown to many."""

    def __init__(self, hub: Hub, present: Present) -> None:
        self._hub = hub
        self._present = present
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, Hashable], _Rendered] = OrderedDict()

    def render(self, app: Flask, change: Change, viewer: Viewer) -> str:
        """The frames for one change, '' if it shows this viewer nothing. Raises Lost if it can't be shown."""
        key = (change.number, viewer.visibility)
        with self._lock:
            entry = self._known.get(key)
            mine = entry is None
            if entry is None:
                entry = self._known[key] = _Rendered()
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        if mine:
            try:
                with app.app_context():
                    entry.frames = self._frames(change, self._present(change, viewer.person))
            except Exception:
                # The page would go on showing what is no longer true; loading it again shows what is.
                log.exception("change %s (%s %s) can't be shown", change.number, change.topic, change.key)
            finally:
                entry.ready.set()
        elif not entry.ready.wait(_RENDERING_SECONDS):
            raise Lost
        if entry.frames is None:
            raise Lost
        return entry.frames

    def _frames(self, change: Change, events: list[tuple[str, dict[str, Any]]]) -> str:
        frames = [
            f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n" for name, data in events
        ]
        if frames:
            # The id stands on the last: a stream that is cut before it gets all of them again.
            frames[-1] = f"id: {self._hub.name(change.number)}\n{frames[-1]}"
        return "".join(f"{frame}\n" for frame in frames)


class Stream:
    """The body of one answer. A class, not a generator: `close()` of a generator that was never started runs
    none of its code, and its place would be lost."""

    def __init__(
        self,
        app: Flask,
        hub: Hub,
        renderer: Renderer,
        viewer: Viewer,
        subscription: Subscription,
        latest_only: Collection[str],
        beat: Beat,
        ended: Callable[[], None],
    ) -> None:
        self._app = app
        self._hub = hub
        self._renderer = renderer
        self._viewer = viewer
        self._subscription = subscription
        self._latest_only = latest_only
        self._beat = beat
        self._ended = ended
        self._open = True
        self._frames = self._run()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._frames)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._open:
            self._open = False
            self._hub.leave(self._subscription)
            self._ended()

    def _run(self) -> Iterator[bytes]:
        yield f"retry: {RETRY_MILLISECONDS}\n{self._position()}\n".encode()
        asked = clock.monotonic()
        try:
            while True:
                changes = self._subscription.take(max(0.0, asked + KEEP_ALIVE - clock.monotonic()))
                beat = ""
                if clock.monotonic() - asked >= KEEP_ALIVE:
                    asked = clock.monotonic()
                    if not self._viewer.welcome():
                        raise Lost
                    with self._app.app_context():
                        beat = f"event: beat\ndata: {json.dumps(self._beat())}\n{self._position()}\n"
                text = "".join(
                    self._renderer.render(self._app, change, self._viewer)
                    for change in self._worth_showing(changes)
                )
                # An id without data moves the browser's Last-Event-ID on; it is no event.
                yield (text + beat or f": nothing to show\n{self._position()}\n").encode()
        except Lost:
            yield b"event: reload\ndata: {}\n\n"
        except Closed:
            return

    def _worth_showing(self, changes: list[Change]) -> list[Change]:
        """Without the changes that a later one of the same thing makes void."""
        last = {(change.topic, change.key): change.number for change in changes}
        return [
            change
            for change in changes
            if change.topic not in self._latest_only or last[change.topic, change.key] == change.number
        ]

    def _position(self) -> str:
        position = self._subscription.position
        return "" if position is None else f"id: {self._hub.name(position)}\n"


def make_stream(
    hub: Hub,
    present: Present,
    limit: int,
    *,
    viewer: Callable[[], Viewer],
    beat: Beat = dict,
    latest_only: Collection[str] = ("call",),
) -> Blueprint:
    """The route. `limit` streams at most: half of the server's blocking threads.

    `Last-Event-ID`, or `?after=` where a page knows the id it was rendered at, says what the browser has
    already. `latest_only` names topics of which only a thing's last change in a batch is worth showing.
    """
    blueprint = Blueprint("live_stream", __name__)
    renderer = Renderer(hub, present)
    places = threading.BoundedSemaphore(limit)

    @blueprint.get("/live/stream")
    def stream() -> Response:
        if request.method == "HEAD":
            return Response(content_type="text/event-stream")
        who = viewer()
        if not places.acquire(blocking=False):
            full = jsonify(error_body("too many live pages are open; this one asks again by itself"))
            full.status_code = 503
            full.headers["Retry-After"] = str(FULL_RETRY_SECONDS)
            return full
        try:
            after = request.headers.get("Last-Event-ID") or request.args.get("after") or None
            app = current_app._get_current_object()  # type: ignore[attr-defined]
            body = Stream(app, hub, renderer, who, hub.subscribe(after), latest_only, beat, places.release)
        except BaseException:
            places.release()
            raise
        # Without the second header nginx gathers a stream until its buffer is full.
        return Response(body, content_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    return blueprint
