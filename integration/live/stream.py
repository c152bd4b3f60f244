"""Live stream `/live/stream` with Server-Sent Events.

Each stream occupies a thread of the server, so streams and requests that wait for events (`api/events`) share
a limited number of places.
"""

from __future__ import annotations

import json
import logging
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Flask, Response, current_app, jsonify, request

from integration.core import clock
from integration.core.errors import error_body
from integration.live.hub import Hub, HubClosed, Subscription, SubscriptionLost, SubscriptionReplaced
from integration.sqlite.transaction import Change

log = logging.getLogger(__name__)

KEEP_ALIVE = 15.0
"""Maximum seconds between two frames.

Proxies close connections without data. A browser that receives nothing for much longer detects a lost
connection, for example after suspension of the machine.
"""
RETRY_MILLISECONDS = 2000
"""Milliseconds after which a browser reconnects."""
MAX_STREAMS_PER_BROWSER = 4
"""Maximum number of open streams of one browser. The oldest is closed for a fifth.

All tabs of a browser share one stream, but over plain HTTP each tab has its own. There a browser opens at
most six connections to a host, and loads no page while streams occupy all of them.
"""
WRITE_SECONDS = 1.0
"""Maximum seconds in which the streams of a browser write, so that those of closed pages end."""
FULL_RETRY_SECONDS = 10
"""Value of Retry-After, in seconds, when the limit of streams is reached."""

_MAX_RENDERINGS, _MAX_RENDERED_CHARACTERS = 1024, 1024 * 1024
"""Maximum number of cached renderings, and of their characters."""
_RENDERING_TIMEOUT_SECONDS = 10.0

RenderEvents = Callable[[Change, Any], list[tuple[str, dict[str, Any]]]]
"""`render_events(change, person)` returns the events of a change as (name, data)."""
HeartbeatData = Callable[[], dict[str, Any]]
"""Function that returns the data of the event `beat`.

All viewers receive the event every KEEP_ALIVE seconds. Called in an application context.
"""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Viewer of a stream.

    Viewers with equal `visibility` receive equal events. `browser`: the session whose streams are counted.
    `has_access()`: whether the login is still valid.
    """

    person: Any
    browser: Hashable
    visibility: Hashable
    has_access: Callable[[], bool]


@dataclass(slots=True)
class _Rendering:
    ready: threading.Event = field(default_factory=threading.Event)
    frames: str | None = None
    size: int = 0
    """Characters of `frames` that are counted, 0 until it is ready."""


class BrowserStreams:
    """Open subscriptions of each browser, oldest first, at most MAX_STREAMS_PER_BROWSER."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_browser: dict[Hashable, list[Subscription]] = {}

    def add(self, browser: Hashable, subscription: Subscription, *, displaces: bool) -> bool:
        """Add a subscription. Returns False if the browser has no place for it.

        `displaces`: the oldest subscription of the browser ends instead.
        """
        self._end_streams_of_closed_pages(browser)
        with self._lock:
            subscriptions = self._by_browser.get(browser, [])
            if len(subscriptions) >= MAX_STREAMS_PER_BROWSER:
                if not displaces:
                    return False
                subscriptions.pop(0).end(SubscriptionReplaced)
            self._by_browser[browser] = [*subscriptions, subscription]
        return True

    def remove(self, browser: Hashable, subscription: Subscription) -> None:
        """Remove a subscription that has ended."""
        with self._lock:
            subscriptions = [one for one in self._by_browser.pop(browser, []) if one is not subscription]
            if subscriptions:
                self._by_browser[browser] = subscriptions

    def _end_streams_of_closed_pages(self, browser: Hashable) -> None:
        """Let all streams of a browser write, if there is no place for another one.

        The server closes the stream of a closed page when it writes, otherwise after up to KEEP_ALIVE.
        """
        with self._lock:
            subscriptions = list(self._by_browser.get(browser, []))
        if len(subscriptions) < MAX_STREAMS_PER_BROWSER:
            return
        for subscription in subscriptions:
            subscription.wake()
        deadline = clock.monotonic() + WRITE_SECONDS
        for subscription in subscriptions:
            subscription.wait_until_written(max(0.0, deadline - clock.monotonic()))


class Renderer:
    """Render changes as stream text, once per change and visibility.

    `render_events` runs in an application context without a request, because many viewers receive its result.
    """

    def __init__(self, live_hub: Hub, render_events: RenderEvents) -> None:
        self._live_hub = live_hub
        self._render_events = render_events
        self._lock = threading.Lock()
        self._renderings: OrderedDict[tuple[int, Hashable], _Rendering] = OrderedDict()
        self._characters = 0

    def render(self, app: Flask, change: Change, viewer: Viewer) -> str:
        """Return a change's frames, '' if the viewer cannot see it.

        Raises SubscriptionLost if rendering fails or takes too long.
        """
        key = (change.number, viewer.visibility)
        with self._lock:
            rendering = self._renderings.get(key)
            is_owner = rendering is None
            if rendering is None:
                rendering = self._renderings[key] = _Rendering()
        if is_owner:
            try:
                with app.app_context():
                    rendering.frames = self._frames(change, self._render_events(change, viewer.person))
            except Exception:
                # Without the change the page would show outdated data, so it must reload.
                log.exception("cannot render change %s (%s %s)", change.number, change.topic, change.key)
            finally:
                rendering.ready.set()
                self._limit_cache(key, rendering)
        elif not rendering.ready.wait(_RENDERING_TIMEOUT_SECONDS):
            raise SubscriptionLost
        if rendering.frames is None:
            raise SubscriptionLost
        return rendering.frames

    def _limit_cache(self, key: tuple[int, Hashable], added: _Rendering) -> None:
        """Count a finished rendering, and delete the oldest beyond the limits."""
        with self._lock:
            if self._renderings.get(key) is added:
                added.size = len(added.frames or "")
                self._characters += added.size
            while len(self._renderings) > _MAX_RENDERINGS or self._characters > _MAX_RENDERED_CHARACTERS:
                _, oldest = self._renderings.popitem(last=False)
                self._characters -= oldest.size

    def _frames(self, change: Change, events: list[tuple[str, dict[str, Any]]]) -> str:
        frames = [
            f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n" for name, data in events
        ]
        if frames:
            # Only the last frame has the id. If the stream breaks before that, all frames are sent again.
            frames[-1] = f"id: {self._live_hub.event_id(change.number)}\n{frames[-1]}"
        return "".join(f"{frame}\n" for frame in frames)


@dataclass(slots=True, eq=False)
class EventStream:
    """Response body of one stream. `on_end()` is called once, when the stream ends.

    A generator is rejected: `close()` on a generator that was never started runs none of its code, so its
    slot would not be released.
    """

    app: Flask
    live_hub: Hub
    renderer: Renderer
    viewer: Viewer
    subscription: Subscription
    heartbeat: HeartbeatData
    on_end: Callable[[], None]
    _is_open: bool = field(default=True, init=False)
    _frames: Iterator[bytes] = field(init=False)

    def __post_init__(self) -> None:
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
        if self._is_open:
            self._is_open = False
            self.live_hub.unsubscribe(self.subscription)
            self.on_end()

    def _run(self) -> Iterator[bytes]:
        yield f"retry: {RETRY_MILLISECONDS}\n{self._position_frame()}\n".encode()
        heartbeat_at = _choose_heartbeat_time()
        try:
            self._check_access()
            while True:
                changes = self.subscription.take(max(0.0, heartbeat_at - clock.monotonic()))
                heartbeat = ""
                if not changes or clock.monotonic() >= heartbeat_at:
                    heartbeat_at = _choose_heartbeat_time()
                    self._check_access()
                    with self.app.app_context():
                        heartbeat = (
                            f"event: beat\ndata: {json.dumps(self.heartbeat())}\n{self._position_frame()}\n"
                        )
                text = "".join(
                    self.renderer.render(self.app, change, self.viewer)
                    for change in self._drop_superseded(changes)
                )
                # A frame with an id but no data updates the browser's Last-Event-ID without an event.
                yield (text + heartbeat or f": nothing to show\n{self._position_frame()}\n").encode()
        except SubscriptionLost:
            yield b"event: reload\ndata: {}\n\n"
        except SubscriptionReplaced:
            yield b"event: replaced\ndata: {}\n\n"
        except HubClosed:
            return

    def _check_access(self) -> None:
        """Raise SubscriptionLost if the viewer has no access: the page then requests what it may show."""
        if not self.viewer.has_access():
            raise SubscriptionLost

    def _drop_superseded(self, changes: list[Change]) -> list[Change]:
        """Drop the changes of a call but its last: each sends the present row of the call."""
        last_numbers = {change.key: change.number for change in changes if change.topic == "call"}
        return [
            change
            for change in changes
            if change.topic != "call" or last_numbers[change.key] == change.number
        ]

    def _position_frame(self) -> str:
        position = self.subscription.position
        return "" if position is None else f"id: {self.live_hub.event_id(position)}\n"


def _choose_heartbeat_time() -> float:
    """Return the time of the next heartbeat, at most KEEP_ALIVE from now.

    It differs from stream to stream: webhooks waited 0.1 s for the heartbeats of 100 streams at once.
    """
    return clock.monotonic() + KEEP_ALIVE * random.uniform(0.6, 1)


def make_stream(
    live_hub: Hub,
    render_events: RenderEvents,
    places: threading.BoundedSemaphore,
    *,
    find_viewer: Callable[[], Viewer],
    heartbeat: HeartbeatData,
) -> Blueprint:
    """Return the blueprint with `/live/stream`.

    `places`: those of requests that stay open, half of the server's blocking threads. `find_viewer()`: the
    viewer of the current request. The header `Last-Event-ID`, or `?after=` with the id at which a page was
    rendered, is the last change that the browser has. With `?free` the stream displaces no other stream of
    the browser, and the response is 204 if there is no place.
    """
    blueprint = Blueprint("live_stream", __name__)
    renderer = Renderer(live_hub, render_events)
    browser_streams = BrowserStreams()

    @blueprint.get("/live/stream")
    def stream() -> Response:
        if request.method == "HEAD":
            return Response(content_type="text/event-stream")
        current_viewer = find_viewer()
        if not places.acquire(blocking=False):
            response = jsonify(
                error_body(f"The limit of open live pages is reached. Retry in {FULL_RETRY_SECONDS} seconds.")
            )
            response.status_code = 503
            response.headers["Retry-After"] = str(FULL_RETRY_SECONDS)
            return response
        try:
            last_event_id = request.headers.get("Last-Event-ID") or request.args.get("after") or None
            app = current_app._get_current_object()  # type: ignore[attr-defined]
            subscription = live_hub.subscribe(last_event_id)

            def release() -> None:
                browser_streams.remove(current_viewer.browser, subscription)
                places.release()

            body = EventStream(app, live_hub, renderer, current_viewer, subscription, heartbeat, release)
        except BaseException:
            places.release()
            raise
        if not browser_streams.add(
            current_viewer.browser, subscription, displaces="free" not in request.args
        ):
            body.close()
            return Response(status=204)
        # Without X-Accel-Buffering nginx buffers the stream until its buffer is full.
        return Response(body, content_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    return blueprint
