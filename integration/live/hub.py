"""Publication of changes to subscribers, without gaps and with bounded queues.

A subscriber registers first, then reads missed changes from the database, then receives new ones. A change
that is committed in between arrives twice and is returned once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from integration.core.ids import parse_id
from integration.sqlite.transaction import Change

MAX_PENDING = 512
"""Maximum number of changes that a subscriber can be behind.

Beyond this limit its page must reload.
"""


class SubscriptionLost(Exception):
    """The subscriber has missed changes that cannot be sent any more.

    The page must reload.
    """


class SubscriptionReplaced(Exception):
    """The browser of the subscriber has opened too many newer subscriptions.

    The page polls until one of them ends.
    """


class HubClosed(Exception):
    """The hub was closed, because the product is stopping."""


class Subscription:
    """Subscriber of a hub.

    `position`: number of the last change that was taken, None before the first.
    """

    def __init__(self, max_pending: int) -> None:
        self.position: int | None = None
        self._max_pending = max_pending
        self._pending: deque[Change] = deque()
        self._end_reason: type[Exception] | None = None
        self._is_woken = False
        self._is_waiting = False
        self._has_ended = False
        self._condition = threading.Condition()

    def take(self, timeout: float) -> list[Change]:
        """Wait up to `timeout` seconds for changes and return them in order.

        Returns no changes after `timeout` or `wake`. Raises SubscriptionLost, SubscriptionReplaced and
        HubClosed.
        """
        with self._condition:
            self._is_waiting = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._pending or self._end_reason or self._is_woken, timeout)
            self._is_waiting = False
            if self._is_woken and self._end_reason is None:
                self._is_woken = False
                return []
            return self.collect()

    def collect(self) -> list[Change]:
        """Return the changes since the last call, in order, without waiting. Raises as `take`."""
        with self._condition:
            if self._end_reason is not None:
                raise self._end_reason
            changes = list(self._pending)
            self._pending.clear()
            if changes:
                self.position = changes[-1].number
            return changes

    def pause(self, seconds: float) -> bool:
        """Wait, while changes are collected. Returns whether `wake` or the end came before `seconds`."""
        with self._condition:
            is_woken = self._condition.wait_for(lambda: self._is_woken or self._end_reason, seconds)
            self._is_woken = False
            return bool(is_woken)

    def _add_changes(self, changes: Iterable[Change]) -> None:
        with self._condition:
            if self._end_reason is not None:
                return
            # A change that is committed, but not published yet, may have been read as a missed change.
            last = self._pending[-1].number if self._pending else self.position
            self._pending.extend(change for change in changes if last is None or change.number > last)
            if len(self._pending) > self._max_pending:
                self.end(SubscriptionLost)
            if self._is_waiting:
                self._condition.notify_all()

    def _start_after(self, position: int, missed_changes: list[Change] | None) -> None:
        with self._condition:
            if missed_changes is None or len(missed_changes) > self._max_pending:
                self.end(SubscriptionLost)
            else:
                self.position = position
                # A change published since the registration is in `missed_changes` as well, or is newer.
                last_missed = missed_changes[-1].number if missed_changes else position
                newer_changes = [change for change in self._pending if change.number > last_missed]
                self._pending = deque([*missed_changes, *newer_changes])
            self._condition.notify_all()

    def end(self, reason: type[Exception]) -> None:
        """Let `take` raise `reason`, which is one of the exceptions above. A later reason changes nothing."""
        with self._condition:
            self._end_reason = self._end_reason or reason
            self._pending.clear()
            self._condition.notify_all()

    def wake(self) -> None:
        """Let `take` return at once, so that the stream verifies the login and writes to its client."""
        with self._condition:
            self._is_woken = True
            self._condition.notify_all()

    def wait_until_written(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until the stream has written what it took, or has ended."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._has_ended or (self._is_waiting and not self._is_woken), timeout
            )

    def mark_ended(self) -> None:
        """Record that the stream of this subscriber has ended."""
        with self._condition:
            self._has_ended = True
            self._condition.notify_all()


class Hub:
    """Distributor of changes to subscribers.

    `read_changes(number)` reads the changes after `number` from the database, in order. It returns None if
    they are incomplete (pruned, or more than it reads) or if `number` was never assigned. More than
    `max_pending` changes are not sent. `epoch` identifies the database to which the numbers belong.
    """

    def __init__(
        self,
        read_changes: Callable[[int], list[Change] | None],
        epoch: str,
        *,
        max_pending: int = MAX_PENDING,
    ) -> None:
        self.epoch = epoch
        self._read_changes = read_changes
        self._max_pending = max_pending
        self._subscriptions: set[Subscription] = set()
        self._lock = threading.Lock()
        self._closed = False

    def publish(self, changes: list[Change]) -> None:
        """Publish changes to all subscribers, in commit order.

        Runs on the writer thread; never blocks.
        """
        with self._lock:
            for subscription in self._subscriptions:
                subscription._add_changes(changes)

    def subscribe(self, last_event_id: str | None) -> Subscription:
        """Subscribe to changes after `last_event_id` ('<epoch>-<number>'), or from now on.

        With an id of another epoch, or whose following changes are deleted, the subscription raises
        SubscriptionLost.
        """
        subscription = Subscription(self._max_pending)
        with self._lock:
            if self._closed:
                subscription.end(HubClosed)
            self._subscriptions.add(subscription)
        if last_event_id is not None:
            number = self._parse_event_id(last_event_id)
            try:
                subscription._start_after(number or 0, None if number is None else self._read_changes(number))
            except BaseException:
                self.unsubscribe(subscription)
                raise
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
        subscription.mark_ended()

    def wake(self) -> None:
        """Let all streams verify the logins of their viewers at once."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription.wake()

    def event_id(self, number: int) -> str:
        """Return the id of a change in the stream."""
        return f"{self.epoch}-{number}"

    @property
    def subscriber_count(self) -> int:
        return len(self._subscriptions)

    def close(self) -> None:
        """End all subscriptions at once, and each later one when it starts."""
        with self._lock:
            self._closed = True
            for subscription in self._subscriptions:
                subscription.end(HubClosed)

    def _parse_event_id(self, event_id: str) -> int | None:
        epoch, _, number = event_id.rpartition("-")
        return parse_id(number) if epoch == self.epoch else None
