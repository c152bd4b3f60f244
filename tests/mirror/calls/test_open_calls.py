"""State of calls that have not ended: hold, unconfirmed calls and live polls."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    NAMES,
    T0,
    CallMirror,
    at,
    inbound_leg,
    live,
    set_now,
)


def test_it_is_on_hold_only_if_every_connected_leg_is(mirror: CallMirror) -> None:
    ann = inbound_leg(101, ANN, root=101, connected=5)
    bob = inbound_leg(102, BOB, root=101, started=20, connected=25)
    mirror.tell(ann.tell("connected", 5), ann.tell("hold", 15))
    assert mirror.calls("state", "state_since") == [("on_hold", at(15))]
    mirror.tell(bob.tell("connected", 25))
    assert mirror.calls("state", "state_since", "user_id") == [("talking", at(25), ANN)]
    mirror.tell(ann.tell("hangup", 26))
    assert mirror.calls("state", "user_id") == [("talking", BOB)]


def test_it_is_unconfirmed_when_nobody_told_of_it_for_too_long(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 1)
    mirror.tell(inbound_leg().tell("ringing", 1))
    assert mirror.calls("unconfirmed", "due_at") == [(0, T0 + 61)]
    mirror.tick(61)
    assert mirror.calls("state", "unconfirmed", "due_at") == [("ringing", 1, None)]
    mirror.poll(live(101, "RINGING"), when=65)
    assert mirror.calls("unconfirmed") == [(0,)]


def test_a_poll_that_misses_one_leg_leaves_a_call_with_another_confirmed(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    mirror.tell(
        inbound_leg(101, ANN, root=101).tell("ringing", 1), inbound_leg(102, BOB, root=101).tell("ringing", 1)
    )
    mirror.poll(live(102, "RINGING"), when=10)
    assert mirror.calls("state", "unconfirmed", "legs") == [("ringing", 0, 2)]
    mirror.gone(101, when=11)
    assert mirror.calls("state", "unconfirmed") == [("ringing", 0)]


def test_a_clock_that_was_ahead_and_is_set_back_leaves_no_ghost(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    set_now(monkeypatch, 10)
    mirror.tell(inbound_leg().tell("ringing", 1))
    mirror.poll(live(101, "RINGING"), when=day)
    set_now(monkeypatch, 30)
    mirror.poll(live(101, "RINGING"), when=30)
    mirror.poll(when=45)
    assert mirror.calls("state", "unconfirmed") == [("ringing", 1)]
    mirror.gone(101, when=46)
    assert mirror.calls("state") == [("ended",)]


def test_a_poll_that_comes_late_does_not_undo_a_newer_one(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    mirror.poll(live(101, "CONNECTED", connected_at=int(T0) + 4), when=10)
    mirror.poll(live(101, "RINGING"), when=8)
    assert mirror.calls("state", "answered_at") == [("talking", at(4))]


def test_a_call_only_polls_tell_of_is_known_too(mirror: CallMirror, monkeypatch: pytest.MonkeyPatch) -> None:
    set_now(monkeypatch, 10)
    mirror.poll(live(101, "CONNECTED", connected_at=T0 + 4, dst_id=str(ANN), dst_name=NAMES[ANN]), when=10)
    assert mirror.calls("state", "answered_at", "user_id", "sources") == [("talking", at(4), ANN, "poll")]


def test_nothing_is_announced_that_did_not_change(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    ringing = inbound_leg().tell("ringing", 1)
    mirror.tell(ringing, ringing)
    before = mirror.calls("change_no")
    mirror.poll(live(101, "RINGING"), when=10)
    mirror.poll(live(101, "RINGING"), when=25)
    changes = mirror.changes()
    assert mirror.calls("change_no") != before, "the poll is a new source"
    mirror.poll(live(101, "RINGING"), when=40)
    assert mirror.changes() == changes
    assert len(changes) == 2
    assert mirror.calls("due_at") == [(T0 + 40 + 60,)]
