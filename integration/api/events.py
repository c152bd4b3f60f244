"""Events of the own API: `GET /api/events`, which can wait for the next event."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from integration.api.requests import ApiRequest, build_value_error
from integration.core import clock
from integration.core.api_responses import ApiError
from integration.events import feed
from integration.events.feed import CALL_KINDS, CALLBACK_KINDS, GAP, KINDS, MESSAGE_KINDS
from integration.events.payloads import build_payloads
from integration.live.hub import HubClosed, Subscription, SubscriptionLost
from integration.settings.base_url import find_base_url

Json = dict[str, Any]

LIST_PARAMETERS = ("after", "kinds", "limit", "wait")
MAX_WAIT = 30
"""Seconds that a request can wait for an event."""
MAX_WAITS_OF_KEY = 8
"""Requests of one key that wait at the same time."""
PAUSE_SECONDS = 0.1
"""Average seconds between two polls of a waiting request, for each request that waits.

A response and the next request take 2 ms of CPU time. 50 requests that one event woke took as long together
as five webhooks with 100 open pages. All requests together poll ten times a second, at random times.
"""
MAX_PAUSE_SECONDS = 5.0
"""Longest average pause, that of 50 waiting requests."""
QUIET_SECONDS = 0.03
"""Seconds after a webhook in which no request polls: open pages receive its change first."""
MAX_POSTPONED_SECONDS = 0.3
"""Longest time by which webhooks postpone a poll."""
RETRY_SECONDS = 2
"""Value of Retry-After, in seconds, if a request cannot wait."""


@dataclass(frozen=True, slots=True)
class _Page:
    """JSON of a response, and the number of the last change that was read for it."""

    body: Json
    position: int


class EventReaders:
    """Readers of events. `places`: those of all requests that stay open."""

    def __init__(self, places: threading.BoundedSemaphore) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._waits: Counter[int] = Counter()

    def list_events(self, request: ApiRequest) -> Json:
        """Return events after a cursor, in order: `{"data": [event, …], "next": text}`.

        `build_payloads` describes an event. `next` is the parameter `after` of the next request. Without
        `after` only later events are returned. A request without events waits up to `wait` seconds for one.
        Raises ApiError 400, 401 for a key that was revoked during the wait, 403, 410 for a cursor that is not
        valid any more, 429 for too many waits.
        """
        request.check_names(LIST_PARAMETERS)
        kinds, wait = _parse_kinds(request), request.number("wait", 0, MAX_WAIT, 0)
        request.limit()
        if not wait or request.http_request.method == "HEAD":
            return _read_page(request, kinds).body
        deadline = clock.monotonic() + wait
        hub = request.context.event_hub
        subscription = hub.subscribe(None)
        try:
            page = _read_page(request, kinds)
            if page.body["data"]:
                return page.body
            with self._take_place(request) as waiting:
                if waiting:
                    return _wait_for_events(request, subscription, kinds, page, deadline, waiting)
        finally:
            hub.unsubscribe(subscription)
        request.response_headers["Retry-After"] = str(RETRY_SECONDS)
        return page.body

    @contextmanager
    def _take_place(self, request: ApiRequest) -> Iterator[int]:
        """Hold a place for the block, if one is free.

        Yields the number of waiting requests, 0 without a place. Raises ApiError 429 for too many waits of
        the key.
        """
        key_id = request.key.user_id
        with self._lock:
            if self._waits[key_id] >= MAX_WAITS_OF_KEY:
                raise ApiError(
                    429,
                    f"{MAX_WAITS_OF_KEY} requests of the key {request.key.name!r} are waiting already."
                    " Wait for one of them to end.",
                    headers={"Retry-After": str(RETRY_SECONDS)},
                )
            has_place = self._places.acquire(blocking=False)
            self._waits[key_id] += has_place
            waiting = self._waits.total()
        try:
            yield waiting if has_place else 0
        finally:
            if has_place:
                self._places.release()
                with self._lock:
                    self._waits -= Counter([key_id])


def _wait_for_events(
    request: ApiRequest,
    subscription: Subscription,
    kinds: frozenset[str],
    page: _Page,
    deadline: float,
    waiting: int,
) -> Json:
    """Return the next page with events, or the empty `page` at the deadline or when the product stops.

    `waiting`: number of waiting requests. `next` of an empty page stays the same: another one would reveal
    changes that the key does not see.
    """
    position, has_time = page.position, True
    average_pause = min(waiting * PAUSE_SECONDS, MAX_PAUSE_SECONDS)
    while has_time:
        seconds = max(deadline - clock.monotonic(), 0)
        has_time = seconds > 0
        is_woken = subscription.pause(min(random.uniform(0, 2 * average_pause), seconds)) or (
            has_time and _wait_for_quiet(request, subscription)
        )
        try:
            changes = subscription.collect()
        except (HubClosed, SubscriptionLost):
            break
        has_events = any(feed.is_event(change, kinds) for change in changes)
        if has_time and not has_events and not is_woken:
            continue
        request.context.authenticator.check_key(request.http_request, is_open=True)
        if has_events:
            found = _read_page(request, kinds, position)
            if found.body["data"]:
                return found.body
            position = found.position
    return page.body


def _wait_for_quiet(request: ApiRequest, subscription: Subscription) -> bool:
    """Wait until no webhook has arrived for QUIET_SECONDS, at most MAX_POSTPONED_SECONDS.

    Returns whether `subscription` was woken.
    """
    inbox, latest = request.context.inbox, clock.monotonic() + MAX_POSTPONED_SECONDS
    received = -1
    while received != inbox.received_count and clock.monotonic() < latest:
        received = inbox.received_count
        if subscription.pause(QUIET_SECONDS):
            return True
    return False


def _read_page(request: ApiRequest, kinds: frozenset[str], position: int | None = None) -> _Page:
    """Return the events after the change `position`, by default after the parameter `after`."""
    user_scope = request.caller.visibility.user_scope
    with request.open_databases() as (mirror, app):
        after = _parse_cursor(request, kinds, mirror, app) if position is None else position
        batch = feed.read_events(
            mirror, app, after, kinds=kinds, user_scope=user_scope, limit=request.limit()
        )
        payloads = build_payloads(
            mirror,
            app,
            batch.events,
            with_parties=True,
            public_url=find_base_url(request.context.settings),
            with_paths=request.has_right("recordings") and request.key.can_access("monitors"),
        )
    return _Page({"data": payloads, "next": batch.next}, batch.position)


def _parse_cursor(
    request: ApiRequest, kinds: frozenset[str], mirror: sqlite3.Connection, app: sqlite3.Connection
) -> int:
    """Return the number of the parameter `after`; without it that of the newest change."""
    text, user_scope = request.text("after"), request.caller.visibility.user_scope
    if text is None:
        text = feed.newest_cursor(mirror, app, kinds=kinds, user_scope=user_scope)
    return request.change("after", mirror, text)


def _parse_kinds(request: ApiRequest) -> frozenset[str]:
    """Return the requested kinds, or all that the key can get. Raises ApiError 400 or 403."""
    text = request.text("kinds")
    requested = KINDS if text is None else tuple(kind.strip() for kind in text.split(","))
    for kind in requested:
        if kind not in KINDS:
            raise build_value_error("kinds", f"{kind[:60]!r} is not one of {', '.join(KINDS)}.")
    kinds, refusal = set[str](), None
    for kind in requested:
        try:
            _check_kind(request, kind)
            kinds.add(kind)
        except ApiError as error:
            refusal = error
    if refusal is not None and (text is not None or kinds == {GAP}):
        raise refusal
    return frozenset(kinds)


def _check_kind(request: ApiRequest, kind: str) -> None:
    """Raise ApiError 403 if the key cannot get events of a kind."""
    if kind in MESSAGE_KINDS:
        request.check_collection("sms")
    if kind in CALLBACK_KINDS:
        request.check_right("workspace")
    if kind in CALL_KINDS or kind in CALLBACK_KINDS:
        request.check_collection("cdrs")
