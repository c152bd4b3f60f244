"""The state of one leg from the set of its facts."""

from __future__ import annotations

import pytest

from integration.mirror.calls.facts import CallEvent, LegFacts, ReceivedEvent
from integration.mirror.calls.legs import Leg, build_leg, sort_events
from integration.mirror.calls.reading import make_sighting
from tests.support.payloads.call_facts import ANN, T0, Phone, format_timestamp, make_event


def leg(*events: CallEvent, **facts: object) -> Leg:
    return build_leg(LegFacts(101, [ReceivedEvent(event, T0 + 3600.0) for event in events], **facts))  # type: ignore[arg-type]


phone = Phone(101, ANN, connected=5)


@pytest.mark.parametrize("state", ["HANGUP", "MISSED", "FAILED"])
def test_a_final_state_ends_the_leg_under_any_event_name(state: str) -> None:
    assert leg(phone.event("ringing", 1), phone.event("something", 3, state=state)).has_ended


def test_microseconds_of_ids_order_events_of_the_same_second_and_server() -> None:
    ringing, connected = phone.event("ringing", 5, micros=900), phone.event("connected", 5, micros=100)
    assert leg(ringing, connected).state == "RINGING", (
        "click-to-call: connected agent, then a ringing destination"
    )


def test_hold_and_unhold_events_of_the_same_second_alternate() -> None:
    def odd(name: str, state: str, n: int) -> CallEvent:
        payload = {"event_time": format_timestamp(T0 + 9), "event_name": name, "call_id": 101, "state": state}
        return make_event(f"{n}-{name}", payload)

    connected = phone.event("connected", 5)
    hold, unhold = odd("call.hold", "ON_HOLD", 1), odd("call.unhold", "CONNECTED", 2)
    second_hold = odd("call.hold", "ON_HOLD", 3)
    assert leg(connected, hold, unhold).state == "CONNECTED"
    assert leg(connected, unhold, hold, second_hold).state == "ON_HOLD"
    held = phone.event("hold", 7)
    assert leg(connected, held, hold, unhold).state == "ON_HOLD", "unhold, then hold"
    assert [state for _, _, state in sort_events([connected, held, unhold])][-1] == "CONNECTED"


def test_a_leg_is_connected_by_connected_at_or_by_a_hold_event() -> None:
    assert leg(phone.event("hangup", 10)).is_connected, "by connected_at of the hang-up"
    assert not leg(Phone(101, ANN).event("hangup", 10)).is_connected
    assert leg(Phone(101, ANN).event("hold", 10)).is_connected


def test_an_event_of_the_year_2999_does_not_prevent_the_end_of_the_leg() -> None:
    payload = {
        "event_time": "2999-01-01 00:00:00", "event_name": "call.ringing", "call_id": 101, "state": "RINGING",
    }  # fmt: skip
    received = [ReceivedEvent(make_event("x", payload), T0 + 1.0)]
    assert build_leg(LegFacts(101, received, missing_at=T0 + 30)).is_missing
    assert build_leg(LegFacts(101, received, not_found_at=T0 + 31)).has_ended


def test_a_poll_adds_only_what_is_newer_than_the_webhooks() -> None:
    ringing = phone.event("ringing", 1)
    polled = make_sighting(T0 + 10, {"state": "CONNECTED", "start_time": T0, "connected_at": T0 + 6})
    found = leg(ringing, sighting=polled)
    assert (found.state, found.connected_at) == ("CONNECTED", T0 + 6)
    behind = make_sighting(T0 + 10, {"state": "RINGING"})
    assert leg(phone.event("connected", 5), sighting=behind).state == "CONNECTED"
    held = make_sighting(T0 + 10, {"state": "ON_HOLD"})
    assert leg(phone.event("connected", 5), sighting=held).state == "ON_HOLD"
    assert leg(phone.event("connected", 5), phone.event("unhold", 12), sighting=held).state == "CONNECTED"
