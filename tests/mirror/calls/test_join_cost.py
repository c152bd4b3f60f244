"""Work per webhook at a busy ring group or queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from integration.sqlite.transaction import Transaction
from tests.mirror.calls.scripts.facts import (
    ANN,
    BOB,
    CALLER,
    CAT,
    SALES,
    SUPPORT,
    T0,
    Leg,
    Webhook,
    interpret_webhook,
)
from tests.mirror.calls.scripts.player import Player, add_fact
from tests.support.application import running_app

MAX_GROWTH = 1.5
"""Largest ratio between the work for a webhook after many calls and after few calls."""

MakeCall = Callable[[int], list[Webhook]]


@pytest.fixture(scope="module")
def shared_player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    with running_app(tmp_path_factory.mktemp("busy") / "data", dashboard__country="GB") as app:
        yield Player(app)


@pytest.fixture
def player(shared_player: Player) -> Iterator[Player]:
    shared_player.clear()
    shared_player.app.clock.freeze(float(T0 + 100_000))
    yield shared_player
    shared_player.app.clock.restore()


def ring_with_root(call: int) -> list[Webhook]:
    """Return a missed call of a withheld caller.

    The caller rings two phones `call` seconds after T0.
    """
    legs = [
        Leg(1000 + 2 * call + n, user, call, context=SUPPORT, src="", root=1000 + 2 * call)
        for n, user in enumerate((ANN, BOB))
    ]
    return [
        *(leg.ringing() for leg in legs),
        legs[0].missed(call + 10, final=False),
        legs[1].missed(call + 10, final=True),
    ]


def ring_without_root(context: str, caller: str) -> MakeCall:
    """Return a function that makes missed calls.

    The calls of one or two phones have no root and no `final`.

    A call begins every 10 s and rings for 15 s, each time at the next of three phones.
    """

    def make(call: int) -> list[Webhook]:
        users = (ANN, BOB, CAT, ANN)[call % 3 : call % 3 + 2]
        legs = [
            Leg(1000 + 2 * call + n, user, 10 * call, context=context, src=caller)
            for n, user in enumerate(users)
        ]
        return [*(leg.ringing() for leg in legs), *(leg.missed(10 * call + 15) for leg in legs)]

    return make


def ring_with_root_of_missed_legs(caller: str) -> MakeCall:
    """Return a function that makes answered calls.

    Only the missed leg names the root.

    A call begins every 15 s, is answered after 8 s and lasts 30 s.
    """

    def make(call: int) -> list[Webhook]:
        start = 15 * call
        missed = Leg(1000 + 2 * call, ANN, start, context=SUPPORT, src=caller)
        answered = Leg(1001 + 2 * call, BOB, start, start + 8, context=SUPPORT, src=caller)
        return [
            missed.ringing(), answered.ringing(), answered.answer(),
            missed.missed(start + 8, final=False, root_call_id=missed.id), answered.hangup(start + 38),
        ]  # fmt: skip

    return make


BUSY_GROUPS: dict[str, MakeCall] = {
    "withheld callers with root": ring_with_root,
    "withheld callers at a ring group": ring_without_root(SUPPORT, ""),
    "withheld callers at a queue": ring_without_root(SALES, ""),
    "one line that forwards to a ring group": ring_without_root(SUPPORT, CALLER),
    "withheld callers, missed legs with root": ring_with_root_of_missed_legs(""),
    "one line that forwards, missed legs with root": ring_with_root_of_missed_legs(CALLER),
}


def add_calls(player: Player, calls: Sequence[list[Webhook]]) -> None:
    """Add the webhooks of `calls` and compute the calls once."""
    events = [interpret_webhook(webhook) for call in calls for webhook in call]
    player.app.mirror_db.write(lambda tx: player.app.context.call_store.add_events(tx, events))


def count_steps(player: Player, webhooks: Sequence[Webhook]) -> int:
    """Add the webhooks, one after the other.

    Returns the instructions of SQLite in tens.
    """
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def job(tx: Transaction) -> None:
        tx.connection.set_progress_handler(count, 10)
        try:
            for webhook in webhooks:
                add_fact(tx, player.app.context.call_store, webhook)
        finally:
            tx.connection.set_progress_handler(None, 0)

    player.app.mirror_db.write(job)
    return steps


def measure(player: Player, make_call: MakeCall, first: int, last: int) -> int:
    """Add the calls from `first` to `last`.

    Returns the work for the webhooks of the last one.
    """
    add_calls(player, [make_call(call) for call in range(first, last)])
    return count_steps(player, make_call(last))


@pytest.mark.parametrize("name", BUSY_GROUPS)
def test_work_per_webhook_does_not_grow_with_the_calls_of_a_group(player: Player, name: str) -> None:
    few = measure(player, BUSY_GROUPS[name], 0, 120)
    many = measure(player, BUSY_GROUPS[name], 121, 360)
    assert many < MAX_GROWTH * few
