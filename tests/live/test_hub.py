"""Distribution of changes to the live streams of one process."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import pytest

from integration.live.hub import Hub, SubscriptionLost
from integration.sqlite.transaction import Change


class Data(dict[str, Any]):
    """Data of a change that a WeakSet can hold.

    The WeakSet counts the data that are still referenced.
    """

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def changes(*numbers: int) -> list[Change]:
    return [Change(number, "call", str(number), {}) for number in numbers]


def numbers(taken: list[Change]) -> list[int]:
    return [change.number for change in taken]


def no_changes(number: int) -> list[Change]:
    return []


def test_changes_published_during_the_catch_up_are_received_once() -> None:
    def catch_up(number: int) -> list[Change]:
        hub.publish(changes(7, 8))
        return changes(5, 6, 7)

    hub = Hub(catch_up, "e")
    subscription = hub.subscribe("e-4")
    hub.publish(changes(9))
    assert numbers(subscription.take(0)) == [5, 6, 7, 8, 9]


def test_changes_published_after_they_were_read_as_missed_are_received_once() -> None:
    hub = Hub(lambda number: changes(5, 6), "e")
    waiting, reading = hub.subscribe("e-4"), hub.subscribe("e-4")
    assert numbers(reading.take(0)) == [5, 6]
    hub.publish(changes(5))
    hub.publish(changes(6, 7))
    assert numbers(waiting.take(0)) == [5, 6, 7]
    assert numbers(reading.take(0)) == [7]


@pytest.mark.parametrize(
    "after", ["other-4", "4", "", "-", "e-", "e-x", "e-²", "e--1", "e-" + "9" * 30, "e-99"]
)
def test_an_unknown_event_id_raises_subscription_lost(after: str) -> None:
    hub = Hub(lambda number: [] if number < 10 else None, "e")
    with pytest.raises(SubscriptionLost):
        hub.subscribe(after).take(0)


def test_a_slow_subscription_is_lost_and_its_changes_are_released() -> None:
    hub = Hub(no_changes, "e", max_pending=10)
    slow, quick = hub.subscribe(None), hub.subscribe(None)
    held: WeakSet[Data] = WeakSet()
    for number in range(1, 100):
        data = Data()
        held.add(data)
        hub.publish([Change(number, "call", str(number), data)])
        assert numbers(quick.take(0)) == [number]
        assert len(held) <= 11, "more than the limit and the change of this iteration"
    with pytest.raises(SubscriptionLost):
        slow.take(0)
    missed = Hub(lambda number: changes(*range(1, 12)), "e", max_pending=10)
    with pytest.raises(SubscriptionLost):
        missed.subscribe("e-0").take(0)


def test_a_failed_catch_up_leaves_no_subscriber() -> None:
    def fail(number: int) -> list[Change]:
        raise OSError("no disk")

    hub = Hub(fail, "e")
    with pytest.raises(OSError, match="no disk"):
        hub.subscribe("e-1")
    assert hub.subscriber_count == 0
