"""Changes from the one writer to everyone who watches, without a gap and without a queue that grows.

A subscriber registers first, then reads what it missed, then listens: what was committed in between comes by
both ways and is passed on once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from integration.sqlite.transaction import Change

PENDING = 512
"""Changes a slow subscriber may be behind before it is told to load its page again."""


class Lost(Exception):
    """What happened since the subscriber's last change can't be told any more: load the page again."""


class Closed(Exception):
    """The hub was closed: the product stops."""


class Subscription:
    """One watcher. `position` is the number of the last change that was taken, None before the first."""

    def __init__(self, pending: int) -> None:
        self.position: int | None = None
        self._limit = pending
        self._pending: deque[Change] = deque()
        self._lost = False
        self._closed = False
        self._news = threading.Condition()

    def take(self, timeout: float) -> list[Change]:
        """What happened since, in order, as soon as there is something; [] after `timeout` seconds.

        Raises Lost and Closed.
        """
        with self._news:
            self._news.wait_for(lambda: self._pending or self._lost or self._closed, timeout)
            if self._closed:
                raise Closed
            if self._lost:
                raise Lost
            changes = [
                change for change in self._pending if self.position is None or change.number > self.position
            ]
            self._pending.clear()
        if changes:
            self.position = changes[-1].number
        return changes

    def _offer(self, changes: Iterable[Change]) -> None:
        with self._news:
            self._pending.extend(changes)
            if len(self._pending) > self._limit:
                self._lose()
            self._news.notify()

    def _begin(self, position: int, missed: list[Change] | None) -> None:
        with self._news:
            if missed is None or len(missed) > self._limit:
                self._lose()
            else:
                self.position = position
                # What was published meanwhile is in `missed` as well, or newer than all of it.
                last = missed[-1].number if missed else position
                newer = [change for change in self._pending if change.number > last]
                self._pending = deque([*missed, *newer])
            self._news.notify()

    def _lose(self) -> None:
        self._lost = True
        self._pending.clear()

    def _close(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify()


class Hub:
    """`catch_up(number)` reads the changes after `number` from the database, in order; None when it can't
    tell all of them: pruned, too many (over `pending` is of no use), or a number that was never given out.
    `epoch` names the run of numbers."""

    def __init__(
        self, catch_up: Callable[[int], list[Change] | None], epoch: str, *, pending: int = PENDING
    ) -> None:
        self.epoch = epoch
        self._catch_up = catch_up
        self._pending = pending
        self._subscriptions: set[Subscription] = set()
        self._lock = threading.Lock()
        self._closed = False

    def publish(self, changes: list[Change]) -> None:
        """Tell everyone. Called in commit order, on the writer's thread; never waits for a subscriber."""
        with self._lock:
            for subscription in self._subscriptions:
                subscription._offer(changes)

    def subscribe(self, after: str | None) -> Subscription:
        """Watch from the change named `after` ('<epoch>-<number>'), or from now.

        A name that is not of this epoch, or whose changes are gone, gives a subscription that is Lost.
        """
        subscription = Subscription(self._pending)
        with self._lock:
            if self._closed:
                subscription._close()
            self._subscriptions.add(subscription)
        if after is not None:
            number = self._number(after)
            try:
                subscription._begin(number or 0, None if number is None else self._catch_up(number))
            except BaseException:
                self.leave(subscription)
                raise
        return subscription

    def leave(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)

    def name(self, number: int) -> str:
        """The id that an event has in the stream."""
        return f"{self.epoch}-{number}"

    @property
    def watchers(self) -> int:
        return len(self._subscriptions)

    def close(self) -> None:
        """End every subscription at once, those to come as well."""
        with self._lock:
            self._closed = True
            for subscription in self._subscriptions:
                subscription._close()

    def _number(self, after: str) -> int | None:
        epoch, _, number = after.rpartition("-")
        if epoch != self.epoch or not (number.isascii() and number.isdecimal()) or len(number) > 18:
            return None
        return int(number)
