"""Changes from the one writer to everyone who watches, without a gap and without a queue that grows.

A subscriber registers first, then reads what it missed, then listens: what was committed in between comes by
both ways and is passed on once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from integration.core.ids import parse_id
from integration.sqlite.transaction import Change

MAX_PENDING = 512
"""Changes a slow subscriber may be behind before it is told to load its page again."""


class SubscriptionLost(Exception):
    """What happened since the subscriber's last change can't be told any more: load the page again."""


class HubClosed(Exception):
    """The hub was closed: the product stops."""


class Subscription:
    """One watcher. `position` is the number of the last change that was taken, None before the first."""

    def __init__(self, max_pending: int) -> None:
        self.position: int | None = None
        self._max_pending = max_pending
        self._pending: deque[Change] = deque()
        self._is_lost = False
        self._is_closed = False
        self._condition = threading.Condition()

    def take(self, timeout: float) -> list[Change]:
        """What happened since, in order, as soon as there is something; [] after `timeout` seconds.

        Raises SubscriptionLost and HubClosed.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._pending or self._is_lost or self._is_closed, timeout)
            if self._is_closed:
                raise HubClosed
            if self._is_lost:
                raise SubscriptionLost
            changes = [
                change for change in self._pending if self.position is None or change.number > self.position
            ]
            self._pending.clear()
        if changes:
            self.position = changes[-1].number
        return changes

    def _add_changes(self, changes: Iterable[Change]) -> None:
        with self._condition:
            self._pending.extend(changes)
            if len(self._pending) > self._max_pending:
                self._mark_lost()
            self._condition.notify()

    def _start_after(self, position: int, missed_changes: list[Change] | None) -> None:
        with self._condition:
            if missed_changes is None or len(missed_changes) > self._max_pending:
                self._mark_lost()
            else:
                self.position = position
                # What was published meanwhile is in `missed` as well, or newer than all of it.
                last_missed = missed_changes[-1].number if missed_changes else position
                newer_changes = [change for change in self._pending if change.number > last_missed]
                self._pending = deque([*missed_changes, *newer_changes])
            self._condition.notify()

    def _mark_lost(self) -> None:
        self._is_lost = True
        self._pending.clear()

    def close(self) -> None:
        """End the stream of this subscriber: `take` raises HubClosed."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()


class Hub:
    """`read_changes(number)` reads the changes after `number` from the database, in order; None when it can't
    tell all of them: pruned, too many (over `max_pending` is of no use), or a number that was never given
    out. `epoch` names the run of numbers."""

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
        """Tell everyone. Called in commit order, on the writer's thread; never waits for a subscriber."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription._add_changes(changes)

    def subscribe(self, last_event_id: str | None) -> Subscription:
        """Watch from the change named `last_event_id` ('<epoch>-<number>'), or from now.

        A name that is not of this epoch, or whose changes are gone, gives a subscription that raises
        SubscriptionLost.
        """
        subscription = Subscription(self._max_pending)
        with self._lock:
            if self._closed:
                subscription.close()
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

    def event_id(self, number: int) -> str:
        """The id that an event has in the stream."""
        return f"{self.epoch}-{number}"

    @property
    def subscriber_count(self) -> int:
        return len(self._subscriptions)

    def close(self) -> None:
        """End every subscription at once, those to come as well."""
        with self._lock:
            self._closed = True
            for subscription in self._subscriptions:
                subscription.close()

    def _parse_event_id(self, event_id: str) -> int | None:
        epoch, _, number = event_id.rpartition("-")
        return parse_id(number) if epoch == self.epoch else None
