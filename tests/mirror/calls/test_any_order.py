"""Order and duplicates of facts do not change the calls (docs/calls.md#words)."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.mirror.calls.facts import CallEvent
from tests.mirror.calls.scripts.facts import Record, Webhook, interpret_webhook
from tests.mirror.calls.scripts.script import Script
from tests.mirror.calls.scripts.test_scripts import SCRIPTS as ALL_SCRIPTS
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
    format_timestamp,
    make_event,
    set_now,
)

MAX_PERMUTED_FACTS = 7
"""Number of facts up to which every order is tested: 5,040 orders of seven facts."""


def list_facts(script: Script) -> list[Fact]:
    """Return the webhooks and records of a script."""
    return [
        interpret_webhook(fact) if isinstance(fact, Webhook) else (fact.collection, fact.values)
        for fact in script.facts
        if isinstance(fact, Webhook | Record)
    ]


SCRIPTS: dict[str, list[Fact]] = {script.title: list_facts(script) for script in ALL_SCRIPTS}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", [name for name, facts in SCRIPTS.items() if len(facts) <= MAX_PERMUTED_FACTS]
)
def test_every_order_gives_the_same_calls(name: str) -> None:
    """Longer scripts are played in random orders (`scripts/test_scripts.py`)."""
    expected = compute(SCRIPTS[name])
    for order in itertools.permutations(SCRIPTS[name]):
        assert compute(order) == expected


TIMES = st.integers(0, 25)
STATES = ["initial", "ringing", "connected", "hold", "unhold", "hangup", "missed", "dtmf", "odd"]


@st.composite
def draw_event(draw: st.DrawFn) -> CallEvent:
    """Draw an event of one of four legs.

    Root, user, final and the time of the connection may be absent.
    """
    leg = draw(st.integers(101, 104))
    name = draw(st.sampled_from(STATES))
    when = draw(TIMES)
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
    more = {"final": draw(st.sampled_from([True, False]))} if name == "missed" and draw(st.booleans()) else {}
    call_event = phone.event(name, when, draw(st.integers(0, 999_999)), **more)
    if draw(st.booleans()):
        return call_event
    payload = {
        "event_time": format_timestamp(T0 + when),
        "event_name": f"call.{name}",
        "call_id": leg,
        "state": "RINGING",
    }
    return make_event(f"odd-{leg}-{name}-{when}", payload)


@given(
    st.lists(draw_event(), min_size=2, max_size=8, unique_by=lambda each: (each.event_id, each.doc)),
    st.randoms(),
)
@example_count(12, exhaustive=40)
def test_the_mirror_has_the_same_calls_in_any_order(
    mirror: CallMirror, events: list[CallEvent], generator: random.Random
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        set_now(patch, 3600)
        order = [*events, *events[:2]]
        generator.shuffle(order)
        mirror.clear()
        mirror.apply(*order, in_one_transaction=True)
        found = [tuple(row.values())[:-1] for row in mirror.calls()]
        assert found == [tuple(row) for row in compute(events)]


def ring_busy_group(src: str, group_context: str) -> list[CallEvent]:
    """Return the webhooks of 80 missed calls.

    Every 10 s one or two of three phones ring for 15 s. Every ninth call names its root.
    """
    events = []
    for call in range(80):
        root = 1000 + 2 * call if call % 9 == 0 else None
        for n, user in enumerate((ANN, BOB, CAT, ANN)[call % 3 : call % 3 + 2]):
            leg = 1000 + 2 * call + n
            phone = Phone(leg, user, started=10 * call, context=group_context, src=src, root=root)
            events += [phone.event("ringing", 10 * call + 0.3), phone.event("missed", 10 * call + 15)]
    return events


@pytest.mark.exhaustive
@pytest.mark.parametrize("group_context", [f"RG-{GROUP}", "QUEUE"])
@pytest.mark.parametrize("src", ["", "447700900101"])
def test_a_busy_group_has_the_same_calls_in_any_order(
    mirror: CallMirror, src: str, group_context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 7200)
    events = ring_busy_group(src, group_context)
    expected = [tuple(row)[:3] for row in compute(events, now=T0 + 7200.0)]
    for order in (
        sorted(events, key=lambda event: event.event_time or ""),
        random.Random(0).sample(events, len(events)),
    ):
        mirror.clear()
        mirror.apply(*order, in_one_transaction=True)
        assert [tuple(row.values())[:3] for row in mirror.calls()] == expected
