"""Times of calls: several CDRs, hold, menu and talk seconds."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    CallMirror,
    hold_events,
    inbound_leg,
)


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
