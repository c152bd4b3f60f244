"""Times of calls: several CDRs, hold, menu and talk seconds."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CallMirror,
    at,
    cdr,
    hold_events,
    inbound_leg,
)


def test_several_cdrs_of_one_leg_are_summed(mirror: CallMirror) -> None:
    mirror.apply(
        ("cdrs", cdr(9002, 101, 30, 30, 25, user_id=ANN, charge=0.02)),
        ("cdrs", cdr(9001, 101, 0, 20, 15, user_id=ANN, charge=0.01)),
    )
    call = mirror.call()
    assert (call["cdrs"], call["charge"], call["talk_seconds"]) == (2, 0.03, 40)
    assert (call["started_at"], call["ended_at"], call["answered_at"]) == (at(0), at(60), at(5))


@pytest.mark.parametrize(
    ("actions", "seconds", "incomplete"),
    [
        ([("hold", 10), ("unhold", 20), ("hold", 30), ("unhold", 35)], 15, 0),
        ([("hold", 10), ("hold", 30), ("unhold", 35)], 5, 1),
        ([("unhold", 20), ("hold", 30), ("unhold", 35)], 5, 1),
        ([("hold", 50)], 10, 1),
        ([("hold", 10), ("hold", 10.1), ("unhold", 20), ("unhold", 20.1)], 10, 0),
    ],
)  # fmt: skip
def test_hold_seconds_are_summed_from_pairs_and_marked_incomplete_if_one_event_is_missing(
    mirror: CallMirror, actions: list[tuple[str, float]], seconds: int, incomplete: int
) -> None:
    mirror.apply(*hold_events(*actions))
    assert mirror.calls("hold_seconds", "hold_incomplete", "talk_seconds") == [
        (seconds, incomplete, 55 - seconds)
    ]


def test_time_in_a_menu_is_counted_in_ivr_seconds(mirror: CallMirror) -> None:
    menu = inbound_leg(101, None, context="IVR", dst_id="50001", dst_name="Main menu", connected=1, root=101)
    desk = inbound_leg(102, ANN, started=21, root=101, connected=30)
    mirror.apply(menu.event("connected", 1))
    assert mirror.calls("state", "group_kind", "group_name") == [("ringing", "ivr", "Main menu")]
    mirror.apply(
        menu.event("hangup", 21),
        desk.event("ringing", 21),
        desk.event("connected", 30),
        desk.event("hangup", 50),
    )
    assert mirror.calls("ivr_seconds", "wait_seconds", "talk_seconds", "outcome") == [
        (20, 30, 20, "answered")
    ]


def test_simultaneous_talk_of_two_legs_is_counted_once(mirror: CallMirror) -> None:
    ann = inbound_leg(101, ANN, root=101, connected=5)
    bob = inbound_leg(102, BOB, root=101, started=20, connected=25)
    mirror.apply(
        ann.event("connected", 5),
        bob.event("connected", 25),
        ann.event("hangup", 45),
        bob.event("hangup", 65),
    )
    assert mirror.calls("talk_seconds") == [(60,)]
