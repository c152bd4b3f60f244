"""State of calls that have not ended: hold, unconfirmed calls and live polls."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    NAMES,
    T0,
    Office,
    at,
    inbound_leg,
    live,
    set_now,
)


def test_it_is_on_hold_only_if_every_connected_leg_is(office: Office) -> None:
    ann = inbound_leg(101, ANN, root=101, connected=5)
    bob = inbound_leg(102, BOB, root=101, started=20, connected=25)
    office.tell(ann.tell("connected", 5), ann.tell("hold", 15))
    assert office.calls("state", "state_since") == [("on_hold", at(15))]
    office.tell(bob.tell("connected", 25))
    assert office.calls("state", "state_since", "user_id") == [("talking", at(25), ANN)]
    office.tell(ann.tell("hangup", 26))
    assert office.calls("state", "user_id") == [("talking", BOB)]


def test_it_is_unconfirmed_when_nobody_told_of_it_for_too_long(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 1)
    office.tell(inbound_leg().tell("ringing", 1))
    assert office.calls("unconfirmed", "due_at") == [(0, T0 + 61)]
    office.tick(61)
    assert office.calls("state", "unconfirmed", "due_at") == [("ringing", 1, None)]
    office.poll(live(101, "RINGING"), when=65)
    assert office.calls("unconfirmed") == [(0,)]


def test_a_poll_that_misses_one_leg_leaves_a_call_with_another_confirmed(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    office.tell(
        inbound_leg(101, ANN, root=101).tell("ringing", 1), inbound_leg(102, BOB, root=101).tell("ringing", 1)
    )
    office.poll(live(102, "RINGING"), when=10)
    assert office.calls("state", "unconfirmed", "legs") == [("ringing", 0, 2)]
    office.gone(101, when=11)
    assert office.calls("state", "unconfirmed") == [("ringing", 0)]


def test_a_clock_that_was_ahead_and_is_set_back_leaves_no_ghost(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    set_now(monkeypatch, 10)
    office.tell(inbound_leg().tell("ringing", 1))
    office.poll(live(101, "RINGING"), when=day)
    set_now(monkeypatch, 30)
    office.poll(live(101, "RINGING"), when=30)
    office.poll(when=45)
    assert office.calls("state", "unconfirmed") == [("ringing", 1)]
    office.gone(101, when=46)
    assert office.calls("state") == [("ended",)]


def test_a_poll_that_comes_late_does_not_undo_a_newer_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    office.poll(live(101, "CONNECTED", connected_at=int(T0) + 4), when=10)
    office.poll(live(101, "RINGING"), when=8)
    assert office.calls("state", "answered_at") == [("talking", at(4))]


def test_a_call_only_polls_tell_of_is_known_too(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    set_now(monkeypatch, 10)
    office.poll(live(101, "CONNECTED", connected_at=T0 + 4, dst_id=str(ANN), dst_name=NAMES[ANN]), when=10)
    assert office.calls("state", "answered_at", "user_id", "sources") == [("talking", at(4), ANN, "poll")]


def test_nothing_is_announced_that_did_not_change(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    set_now(monkeypatch, 10)
    ringing = inbound_leg().tell("ringing", 1)
    office.tell(ringing, ringing)
    before = office.calls("change_no")
    office.poll(live(101, "RINGING"), when=10)
    office.poll(live(101, "RINGING"), when=25)
    changes = office.changes()
    assert office.calls("change_no") != before, "the poll is a new source"
    office.poll(live(101, "RINGING"), when=40)
    assert office.changes() == changes
    assert len(changes) == 2
    assert office.calls("due_at") == [(T0 + 40 + 60,)]
