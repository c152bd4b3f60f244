"""The same facts in every order and doubled give the same calls (docs/calls.md#words)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.mirror.calls.facts import CallEvent
from tests.mirror.calls import test_worked_examples as examples
from tests.support.examples import example_count
from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CAT,
    DDI,
    GROUP,
    T0,
    CallMirror,
    Fact,
    Phone,
    compute,
    event,
    format_timestamp,
    set_now,
)

SCRIPTS: dict[str, Callable[[], Sequence[Fact]]] = {
    "plain": examples.plain,
    "ring group answered": examples.ring_group_answered,
    "ring group missed": examples.ring_group_missed,
    "ring group missed, as documented": lambda: examples.ring_group_missed(documented=True),
    "transfer": examples.transfer,
    "click-to-call, two legs": examples.click_two_legs,
    "click-to-call, one id": lambda: examples.one_id(again=True),
    "queue": examples.queue_left,
    "hunt group": examples.hunt,
    "voicemail": examples.left_a_message,
}
WHOLE = 7
"""Every order of scripts up to this many facts: 5,040 of seven."""


def some_orders(facts: Sequence[Fact], count: int) -> Iterator[list[Fact]]:
    return (random.Random(n).sample(facts, len(facts)) for n in range(count))


@pytest.mark.parametrize("name", SCRIPTS)
def test_orders_give_the_same_calls(name: str) -> None:
    facts = SCRIPTS[name]()
    expected = compute(facts)
    backwards = list(reversed(facts))
    for order in (backwards, *some_orders(facts, 60)):
        assert compute(order) == expected


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_order_gives_the_same_calls(name: str) -> None:
    facts = SCRIPTS[name]()
    expected = compute(facts)
    for order in itertools.permutations(facts) if len(facts) <= WHOLE else some_orders(facts, 300):
        assert compute(order) == expected


@pytest.mark.parametrize("name", SCRIPTS)
def test_shuffled_and_doubled_they_leave_the_same_rows_in_the_mirror(
    mirror: CallMirror, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 3600)
    facts = SCRIPTS[name]()
    mirror.tell(*facts, apart=False)
    expected = mirror.state()
    assert [tuple(row)[:-1] for row in mirror.calls(*examples_columns(mirror))] == [
        tuple(row)[:-1] for row in compute(facts)
    ], "the store finds what the pure parts find"
    for seed in range(6):
        chance = random.Random(seed)
        order = [*facts, *chance.sample(facts, len(facts) // 2)]
        chance.shuffle(order)
        mirror.clear()
        mirror.tell(*order, apart=False)
        assert mirror.state() == expected, f"seed {seed}"


def examples_columns(mirror: CallMirror) -> list[str]:
    return [name for name in mirror.calls()[0] if name != "change_no"]


MOMENTS = st.integers(0, 25)
STATES = ["initial", "ringing", "connected", "hold", "unhold", "hangup", "missed", "dtmf", "odd"]


@st.composite
def webhooks(draw: st.DrawFn) -> CallEvent:
    """Any event of a few legs of a few callers, with or without root, final, micros."""
    leg = draw(st.integers(101, 104))
    what = draw(st.sampled_from(STATES))
    when = draw(MOMENTS)
    phone = Phone(
        leg,
        draw(st.sampled_from([ANN, BOB, CAT, None])),
        started=draw(st.sampled_from([0, 1, 20])),
        context=draw(st.sampled_from(["LOCAL_USER", f"RG-{GROUP}", "QUEUE", "IVR", "NEW_THING"])),
        src=draw(st.sampled_from(["447700900101", "", "1001"])),
        dst=draw(st.sampled_from([DDI, "1002", "447700900102"])),
        destination=draw(st.sampled_from(["in", "out"])),
        root=draw(st.sampled_from([None, None, 101, 102, 99])),
        connected=draw(st.sampled_from([None, 5])),
        server=draw(st.sampled_from(["uk003", "uk004"])),
    )
    more = {"final": draw(st.sampled_from([True, False]))} if what == "missed" and draw(st.booleans()) else {}
    told = phone.tell(what, when, draw(st.integers(0, 999_999)), **more)
    if draw(st.booleans()):
        return told
    payload = {
        "event_time": format_timestamp(T0 + when),
        "event_name": f"call.{what}",
        "call_id": leg,
        "state": "RINGING",
    }
    return event(f"odd-{leg}-{what}-{when}", payload)


@given(st.lists(webhooks(), max_size=12, unique_by=lambda told: (told.event_id, told.doc)), st.randoms())
@example_count(50, exhaustive=200)
def test_any_set_of_events_has_one_meaning(told: list[CallEvent], chance: random.Random) -> None:
    expected = compute(told)
    order = list(told)
    chance.shuffle(order)
    assert compute(order) == expected


@given(
    st.lists(webhooks(), min_size=2, max_size=8, unique_by=lambda told: (told.event_id, told.doc)),
    st.randoms(),
)
@example_count(12, exhaustive=40)
def test_the_mirror_holds_that_meaning_whatever_the_order(
    mirror: CallMirror, told: list[CallEvent], chance: random.Random
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_now(patch, 3600)
        order = [*told, *told[:2]]
        chance.shuffle(order)
        mirror.clear()
        mirror.tell(*order, apart=False)
        found = [tuple(row.values())[:-1] for row in mirror.calls()]
        assert found == [tuple(row) for row in compute(told)]
