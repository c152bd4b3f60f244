"""The state of one leg from the set of its facts."""

from __future__ import annotations

import pytest

from integration.mirror.calls.facts import CallEvent, LegFacts, ReceivedEvent
from integration.mirror.calls.legs import Leg, build_leg, sort_events
from integration.mirror.calls.reading import make_sighting
from tests.support.payloads.call_facts import ANN, T0, Phone, event, format_timestamp


def leg(*told: CallEvent, **facts: object) -> Leg:
    return build_leg(LegFacts(101, [ReceivedEvent(one, T0 + 3600.0) for one in told], **facts))  # type: ignore[arg-type]


phone = Phone(101, ANN, connected=5)


def test_it_stays_ended_when_a_late_ringing_arrives() -> None:
    found = leg(phone.tell("hangup", 10), phone.tell("ringing", 12))
    assert (found.has_ended, found.state, found.ended_at) == (True, "ENDED", T0 + 10)


@pytest.mark.parametrize("state", ["HANGUP", "MISSED", "FAILED"])
def test_a_final_state_ends_it_whatever_the_event_is_called(state: str) -> None:
    assert leg(phone.tell("ringing", 1), phone.tell("something", 3, state=state)).has_ended


def test_dtmf_and_unknown_states_never_set_the_state() -> None:
    found = leg(
        phone.tell("connected", 5),
        phone.tell("dtmf", 7, state="DTMF_RECEIVED"),
        phone.tell("dtmf", 8, state="RINGING"),
        phone.tell("parked", 9, state="PARKED"),
    )
    assert (found.state, found.state_since) == ("CONNECTED", T0 + 5)


def test_microseconds_of_ids_order_events_of_one_second_and_server() -> None:
    ringing, connected = phone.tell("ringing", 5, micros=900), phone.tell("connected", 5, micros=100)
    assert leg(ringing, connected).state == "RINGING", "agent first: it rang again after the pick-up"


def test_microseconds_of_different_servers_are_not_compared() -> None:
    elsewhere = Phone(101, ANN, server="de001", connected=5)
    assert (
        leg(phone.tell("ringing", 5, micros=900), elsewhere.tell("connected", 5, micros=100)).state
        == "CONNECTED"
    )


def test_hold_and_unhold_within_a_second_take_turns() -> None:
    def odd(name: str, state: str, n: int) -> CallEvent:
        payload = {"event_time": format_timestamp(T0 + 9), "event_name": name, "call_id": 101, "state": state}
        return event(f"{n}-{name}", payload)

    connected = phone.tell("connected", 5)
    hold, unhold = odd("call.hold", "ON_HOLD", 1), odd("call.unhold", "CONNECTED", 2)
    again = odd("call.hold", "ON_HOLD", 3)
    assert leg(connected, hold, unhold).state == "CONNECTED"
    assert leg(connected, unhold, hold, again).state == "ON_HOLD"
    held = phone.tell("hold", 7)
    assert leg(connected, held, hold, unhold).state == "ON_HOLD", "released, then held again"
    assert [state for _, _, state in sort_events([connected, held, unhold])][-1] == "CONNECTED"


def test_a_hangup_tells_the_end_better_than_a_miss() -> None:
    found = leg(phone.tell("missed", 18), phone.tell("hangup", 20, terminated_by="callee"))
    assert (found.ended_at, found.ended_by) == (T0 + 20, "callee")
    assert leg(phone.tell("hangup", 16), phone.tell("missed", 18)).ended_at == T0 + 16


def test_connected_is_a_fact_of_its_own() -> None:
    assert leg(phone.tell("hangup", 10)).is_connected, "connected_at of the hang-up says so"
    assert not leg(Phone(101, ANN).tell("hangup", 10)).is_connected
    assert leg(Phone(101, ANN).tell("hold", 10)).is_connected


def test_an_inferred_end_is_withdrawn_by_a_later_event_or_poll() -> None:
    ringing = phone.tell("ringing", 1)
    assert leg(ringing, not_found_at=T0 + 60).is_end_inferred
    assert not leg(ringing, phone.tell("connected", 61), not_found_at=T0 + 60).has_ended
    seen = make_sighting(T0 + 61, {"id": 101, "state": "RINGING"})
    assert not leg(ringing, not_found_at=T0 + 60, sighting=seen).has_ended
    assert not leg(ringing, phone.tell("hangup", 61), not_found_at=T0 + 60).is_end_inferred


def test_an_event_dated_in_the_far_future_keeps_no_ghost_alive() -> None:
    payload = {
        "event_time": "2999-01-01 00:00:00", "event_name": "call.ringing", "call_id": 101, "state": "RINGING",
    }  # fmt: skip
    told = [ReceivedEvent(event("x", payload), T0 + 1.0)]
    assert build_leg(LegFacts(101, told, missing_at=T0 + 30)).is_missing
    assert build_leg(LegFacts(101, told, not_found_at=T0 + 31)).has_ended


def test_a_poll_is_believed_where_it_knows_more_than_the_webhooks() -> None:
    ringing = phone.tell("ringing", 1)
    polled = make_sighting(T0 + 10, {"state": "CONNECTED", "start_time": T0, "connected_at": T0 + 6})
    found = leg(ringing, sighting=polled)
    assert (found.state, found.connected_at, found.origins["connected"]) == ("CONNECTED", T0 + 6, "poll")
    behind = make_sighting(T0 + 10, {"state": "RINGING"})
    assert leg(phone.tell("connected", 5), sighting=behind).state == "CONNECTED"
    held = make_sighting(T0 + 10, {"state": "ON_HOLD"})
    assert leg(phone.tell("connected", 5), sighting=held).state == "ON_HOLD"
    assert leg(phone.tell("connected", 5), phone.tell("unhold", 12), sighting=held).state == "CONNECTED"
