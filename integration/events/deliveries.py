"""Delivery of events to outgoing webhooks.

A consumer starts a thread for each subscription with news, so that a receiver that hangs delays no other. A
thread sends one event after another and stores the cursor after the response: a crash repeats an event, and
never loses one.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import orjson

from integration.core import clock
from integration.core.consumer import Consumer
from integration.core.errors import DomainError, PlatformError
from integration.core.health import Health
from integration.core.retry_delays import REFUSED_EVENT_ATTEMPTS
from integration.events import delivery_log, subscriptions
from integration.events.delivery_log import AttemptState, Outcome, Purpose
from integration.events.feed import (
    CALL_KINDS,
    GAP,
    Event,
    UnknownCursor,
    newest_cursor,
    parse_cursor,
    read_events,
)
from integration.events.payloads import build_payloads
from integration.events.subscriptions import BEFORE_GAP, Position, Subscription
from integration.mirror.calls import backlog
from integration.mirror.records import change_log
from integration.mirror.sync_state import collection_state
from integration.outbound.connections import CHUNK
from integration.outbound.exchange import Exchange, ResponseBody
from integration.outbound.public_addresses import AddressRefused, PublicHosts
from integration.outbound.tls import describe_failure
from integration.outbound.urls import check_url
from integration.settings.base_url import find_base_url
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

NAME = "outgoing webhooks"
"""Name of the consumer and of its health check."""
CHECK_SECONDS = 1.0
"""Seconds between two runs, which find due retries."""
TIMEOUT_SECONDS = 15.0
"""Seconds of one request."""
MAX_BODY_BYTES = 64 * 1024
"""Bytes of a payload. A larger one has only the id of its record."""
MAX_RESPONSE_BYTES = 1024
BATCH_SIZE = 100
"""Number of events that are read at once."""
STORED_EVERY = 1000
"""Number of changes without an event of a subscription after which its cursor is stored."""
SECONDS_BEFORE_GAP = 3600
"""Seconds before the last delivery whose calls a subscription of an old epoch gets."""
RETRIED_STATUSES = frozenset((408, 425, 429))
"""Statuses below 500 that are no refusal of the event."""
ENDED = 410
"""Status of a receiver that ends its subscription."""

Step = tuple[Event, Position]
"""An event and the position of its subscription after it."""


class Deliveries:
    """Sends events to all subscriptions, one request at a time for each."""

    def __init__(self, settings: Settings, mirror_db: Database, app_db: Database, health: Health) -> None:
        self.app_db = app_db
        self._settings, self._mirror_db = settings, mirror_db
        self.consumer = Consumer(NAME, self.run, health, check_every=CHECK_SECONDS)
        self._stopping = threading.Event()
        self._threads_lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._repeated: set[int] = set()
        self._request_locks: dict[int, threading.Lock] = defaultdict(threading.Lock)
        self._read_until: dict[int, tuple[Position, str]] = {}
        """Position of a subscription, and the cursor until which no event follows, by its id."""
        self._failure: Exception | None = None
        """Error of a thread, which the next run of the consumer reports."""
        self._exchanges: dict[str, Exchange] = {}

    def stop(self, seconds: float = 0.5) -> None:
        """End deliveries; wait up to `seconds` for responses. The next process repeats the others."""
        self._stopping.set()
        self.consumer.stop()
        deadline = clock.monotonic() + seconds
        for exchange in list(self._exchanges.values()):
            exchange.close()
        for thread in list(self._threads.values()):
            thread.join(max(0.0, deadline - clock.monotonic()))

    # --- for commands and pages ------------------------------------------------------------------------

    def newest_cursor(self) -> str:
        with self._mirror_db.read() as mirror, self.app_db.read() as app:
            return newest_cursor(mirror, app)

    def test(self, subscription: Subscription) -> Outcome:
        """Send an event of the kind `test` without data."""
        event = Event(0, f"test-{secrets.token_hex(8)}", "test", clock.utc_text(), 0)
        with self._request_locks[subscription.id]:
            return self._send_and_record(subscription, event, "test")

    def replay(self, number: int, attempts: list[int], report: Callable[[int], bool] = lambda _: True) -> int:
        """Send the events of `attempts` of the log with the present data; the cursor does not move.

        `report` receives the number delivered so far, and returns whether to continue. Returns how many were
        delivered, without those that were deleted from the log. Raises DomainError after the first failure.
        """
        count = 0
        for attempt in attempts:
            if not report(count):
                break
            with self._request_locks[number]:
                with self.app_db.read() as app:
                    subscription = subscriptions.find(app, number)
                    found = delivery_log.find_event(app, attempt)
                if subscription is None:
                    raise DomainError("This outgoing webhook was removed.")
                if found is None:
                    continue
                outcome = self._send_and_record(subscription, found[1], "replay")
            if outcome.error:
                raise DomainError(
                    f"{count:,} of {len(attempts):,} events were delivered. Then one failed: {outcome.error}."
                )
            count += 1
        return count

    def skip(self, number: int) -> Event:
        """Set the event that failed last aside and return it. Raises DomainError without one.

        Does not wait for a running request, whose result then changes only the log.
        """
        with self.app_db.read() as app:
            subscription = subscriptions.find(app, number)
        steps: list[Step] = []
        if subscription is not None and subscription.tries:
            position, steps = self._read_steps(subscription)

        def work(tx: Transaction) -> None:
            # A retry can have succeeded since the user decided to skip its event.
            found = subscriptions.find(tx.connection, number)
            if not steps or found is None or not found.tries or found.position != position:
                raise DomainError("No failed event waits for this outgoing webhook.")
            outcome = Outcome(None, "", "skipped by a user", 0.0)
            delivery_log.record(tx, number, steps[0][0], "delivery", "set aside", outcome)
            subscriptions.advance(tx, number, steps[0][1], is_delivered=False)

        self.app_db.write(work)
        self.consumer.wake()
        return steps[0][0]

    # --- the consumer ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Start a thread for each subscription with news. Raises the error of an earlier thread."""
        now, newest = clock.utc_text(), self.newest_cursor()
        with self.app_db.read() as app:
            due = [one for one in subscriptions.list_all(app) if one.is_due(now)]
        for subscription in due:
            if self._read_until.get(subscription.id) != (subscription.position, newest):
                self._start_thread(subscription.id)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _start_thread(self, number: int) -> None:
        with self._threads_lock:
            if number in self._threads:
                self._repeated.add(number)
                return
            thread = threading.Thread(
                target=self._run_thread, args=(number,), name=f"outgoing webhook {number}", daemon=True
            )
            self._threads[number] = thread
        thread.start()

    def _run_thread(self, number: int) -> None:
        while True:
            try:
                while self._deliver_batch(number):
                    pass
            except Exception as error:  # noqa: BLE001 – the consumer reports it
                # Failed requests are handled inside; here a database could not be read or written. While the
                # product stops, the databases are closed.
                self._failure = None if self._stopping.is_set() else error
            with self._threads_lock:
                if number not in self._repeated:
                    del self._threads[number]
                    return
                self._repeated.remove(number)

    def _deliver_batch(self, number: int) -> bool:
        """Deliver the next events, at most BATCH_SIZE. Returns whether to continue."""
        subscription = self._find_due(number)
        if subscription is None:
            return False
        position, steps = self._read_steps(subscription)
        for event, next_position in steps:
            if not self._deliver(number, position, event, next_position):
                return False
            position = next_position
        return bool(steps)

    def _find_due(self, number: int) -> Subscription | None:
        if self._stopping.is_set():
            return None
        with self.app_db.read() as app:
            subscription = subscriptions.find(app, number)
        return subscription if subscription is not None and subscription.is_due(clock.utc_text()) else None

    def _read_steps(self, subscription: Subscription) -> tuple[Position, list[Step]]:
        """Return the position of a subscription, and the next events with the position after each."""
        position, kinds = subscription.position, frozenset(subscription.kinds)
        with self._mirror_db.read() as mirror, self.app_db.read() as app:
            if position.states_since is not None:
                # In a new mirror.db the calls are missing until they are read from the platform.
                if not collection_state.get_state(mirror, "cdrs").is_complete or not backlog.is_empty(mirror):
                    return position, []
                if steps := _read_states(mirror, subscription):
                    return position, steps
                position = Position(position.cursor)
            read_position, end = self._read_until.get(subscription.id, (position, position.cursor))
            if read_position != position:
                end = position.cursor
            while True:
                after = parse_cursor(mirror, end)
                batch = read_events(mirror, app, after, kinds=kinds, user_scope=None, limit=BATCH_SIZE)
                if batch.events or batch.next == end:
                    break
                end = batch.next
            if parse_cursor(mirror, end) - parse_cursor(mirror, position.cursor) >= STORED_EVERY:
                position = Position(end)
        if position != subscription.position:
            self.app_db.write(lambda tx: subscriptions.move(tx, subscription, position))
        self._read_until[subscription.id] = (position, end)
        cursors = [event.id for event in batch.events[:-1]] + [batch.next]
        return position, [
            (event, Position(cursor)) for event, cursor in zip(batch.events, cursors, strict=False)
        ]

    def _deliver(self, number: int, position: Position, event: Event, next_position: Position) -> bool:
        """Send an event and store the result. Returns whether the subscription continues after it."""
        with self._request_locks[number]:
            subscription = self._find_due(number)
            if subscription is None or subscription.position != position:
                return False
            outcome = self.send(subscription, event)
            with self.app_db.read() as app:
                earlier_statuses = delivery_log.list_statuses(app, number, event.id)
            if not earlier_statuses:
                # Earlier failures are those of an event whose call was deleted.
                subscription = replace(subscription, tries=0, failing_since=None)
            state = _judge(outcome, earlier_statuses)

            def work(tx: Transaction) -> None:
                delivery_log.record(tx, number, event, "delivery", state, outcome)
                found = subscriptions.find(tx.connection, number)
                if found is None or found.position != position:
                    return  # A user has skipped the event.
                if state == "failed":
                    has_ended = outcome.status == ENDED
                    subscriptions.mark_failed(tx, subscription, outcome.error or "", has_ended=has_ended)
                else:
                    subscriptions.advance(tx, number, next_position, is_delivered=state == "delivered")

            self.app_db.write(work)
        return state != "failed"

    # --- requests --------------------------------------------------------------------------------------

    def _send_and_record(self, subscription: Subscription, event: Event, purpose: Purpose) -> Outcome:
        outcome = self.send(subscription, event)
        state: AttemptState = "failed" if outcome.error else "delivered"
        self.app_db.write(lambda tx: delivery_log.record(tx, subscription.id, event, purpose, state, outcome))
        return outcome

    def send(self, subscription: Subscription, event: Event) -> Outcome:
        """Build the payload of an event from the present data, and send it."""
        with self._mirror_db.read() as mirror, self.app_db.read() as app:
            (payload,) = build_payloads(
                mirror,
                app,
                [event],
                with_parties=subscription.with_parties,
                public_url=find_base_url(self._settings),
            )
        body = orjson.dumps(payload)
        if len(body) > MAX_BODY_BYTES:
            body = orjson.dumps({**payload, "data": {"id": event.key}})
        return self._post(subscription, event.id, body.decode())

    def _post(self, subscription: Subscription, message_id: str, body: str) -> Outcome:
        """Send a body, signed now. Redirects are not followed."""
        began, now = clock.monotonic(), clock.now()
        headers = {
            "User-Agent": "Switchroom",
            "Content-Type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": subscription.sign(message_id, now, body),
        }
        url, status, text = urlsplit(subscription.url), None, ""
        problem: str | None
        try:
            check_url(subscription.url, self._settings.outgoing.allow_hosts)
            target = urlunsplit(("", "", url.path or "/", url.query, ""))
            exchange = self._get_exchange(urlunsplit((url.scheme, url.netloc, "", "", "")))
            with exchange.send("POST", target, headers, body.encode(), TIMEOUT_SECONDS) as response:
                status = response.status
                text = _read_start(response)
        except (AddressRefused, ValueError) as error:
            problem = str(error)
        except PlatformError as error:
            problem = f"{url.hostname}: {describe_failure(error)}"
        else:
            problem = None if 200 <= status < 300 else f"{url.hostname} returned {status}"
            if problem and status < 400:
                problem += ", and redirects are not followed"
        return Outcome(status, text, problem, clock.monotonic() - began)

    def _get_exchange(self, base_url: str) -> Exchange:
        """Return the HTTP client of a host. A new TLS context takes 20 ms, so it is kept."""
        exchange = self._exchanges.get(base_url)
        if exchange is None:
            public_hosts = PublicHosts(self._settings.outgoing.allow_hosts)
            exchange = self._exchanges[base_url] = Exchange(base_url, 1, public_hosts)
        return exchange


def follow_epoch(mirror_db: Database, app_db: Database) -> None:
    """Let subscriptions of an old epoch get a gap, then the calls since an hour before their last delivery.

    A start calls this before anything is written to mirror.db.
    """
    with mirror_db.read() as mirror, app_db.read() as app:
        cursor = newest_cursor(mirror, app)
        for subscription in subscriptions.list_all(app):
            since = subscription.states_since
            try:
                parse_cursor(mirror, subscription.cursor)
            except UnknownCursor:
                since = since or _find_gap_begin(subscription)
                position = Position(cursor, since, BEFORE_GAP)
                app_db.write(partial(subscriptions.move, subscription=subscription, position=position))
            if since:
                log.info(
                    "outgoing webhook %s: events are missing after a restore, a rebuild or a power failure;"
                    " the calls since %s follow as soon as all CDRs are read",
                    subscription.name,
                    since,
                )


def _find_gap_begin(subscription: Subscription) -> str:
    """Return the time (UTC text) since which a subscription of an old epoch gets the calls."""
    last = clock.parse_utc(subscription.delivered_at or subscription.created_at)
    assert last is not None
    return clock.utc_text(last - timedelta(seconds=SECONDS_BEFORE_GAP))


def _read_states(mirror: sqlite3.Connection, subscription: Subscription) -> list[Step]:
    """Return the next events after a change of the epoch: GAP, then calls. None if all are delivered.

    The numbers of these ids are negative, as after other gaps (`feed`).
    """
    position, epoch, now = subscription.position, change_log.get_epoch(mirror), clock.utc_text()
    if position.states_after == BEFORE_GAP:
        last = subscription.delivered_at or subscription.created_at
        return [(Event(0, f"{epoch}--0", GAP, now, 0, since=last), position._replace(states_after=0))]
    if set(subscription.kinds).isdisjoint(CALL_KINDS):
        return []
    # Without deleted changes mirror.db is new: all its calls are changes, so those that ended since are sent.
    rows = mirror.execute(
        "WITH old (change_no) AS (SELECT coalesce(max(id), :deleted) FROM _changes WHERE at < :since)"
        " SELECT change_no, id FROM _calls WHERE change_no > :after"
        " AND (coalesce(ended_at, :since) >= :since OR change_no > (SELECT change_no FROM old))"
        " UNION ALL SELECT change_no, id FROM _merged_calls"
        " WHERE change_no > max(:after, (SELECT change_no FROM old))"
        " ORDER BY change_no LIMIT :limit",
        {
            **{"since": position.states_since, "after": position.states_after, "limit": BATCH_SIZE},
            "deleted": change_log.find_bounds(mirror)[0] - 1 or None,
        },
    )
    return [
        (
            Event(-number, f"{epoch}--{number}", "call.updated", now, call_id),
            position._replace(states_after=number),
        )
        for number, call_id in rows
    ]


def _judge(outcome: Outcome, earlier_statuses: Sequence[int | None]) -> AttemptState:
    """Return the state of an event after an attempt. A receiver may refuse it; other failures are retried.

    `earlier_statuses`: those of its attempts before this one.
    """
    if outcome.error is None:
        return "delivered"
    refusals = sum(map(_is_refusal, (*earlier_statuses, outcome.status)))
    is_set_aside = _is_refusal(outcome.status) and refusals >= REFUSED_EVENT_ATTEMPTS
    return "set aside" if is_set_aside else "failed"


def _is_refusal(status: int | None) -> bool:
    return status is not None and 400 <= status < 500 and status not in (ENDED, *RETRIED_STATUSES)


def _read_start(response: ResponseBody) -> str:
    """Return the first bytes of the response as text. The status counts, even if the body ends early."""
    start = b""
    try:
        for chunk in response.chunks(MAX_RESPONSE_BYTES + CHUNK, unbuffered=True):
            start += chunk
            if len(start) >= MAX_RESPONSE_BYTES:
                break
    except PlatformError:
        pass
    return start[:MAX_RESPONSE_BYTES].decode("utf-8", "replace")
