"""States of live calls: hold, unconfirmed calls and live polls."""

from __future__ import annotations

import pytest

from tests.support.payloads.call_facts import (
    ANN,
    BOB,
    T0,
    CallMirror,
    at,
    inbound_leg,
    live,
    set_now,
)


def test_a_call_is_on_hold_only_if_every_connected_leg_is_on_hold(mirror: CallMirror) -> None:
    ann = inbound_leg(101, ANN, root=101, connected=5)
    bob = inbound_leg(102, BOB, root=101, started=20, connected=25)
    mirror.apply(ann.event("connected", 5), ann.event("hold", 15))
    assert mirror.calls("state", "state_since") == [("on_hold", at(15))]
    mirror.apply(bob.event("connected", 25))
    assert mirror.calls("state", "state_since", "user_id") == [("talking", at(25), ANN)]
    mirror.apply(ann.event("hangup", 26))
    assert mirror.calls("state", "user_id") == [("talking", BOB)]


def test_a_call_without_facts_for_60_seconds_becomes_unconfirmed(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 1)
    mirror.apply(inbound_leg().event("ringing", 1))
    assert mirror.calls("unconfirmed", "due_at") == [(0, T0 + 61)]
    mirror.tick(61)
    assert mirror.calls("state", "unconfirmed", "due_at") == [("ringing", 1, None)]
    mirror.poll(live(101, "RINGING"), when=65)
    assert mirror.calls("unconfirmed") == [(0,)]


def test_a_poll_without_one_leg_of_a_call_keeps_the_call_confirmed_by_the_other(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    mirror.apply(
        inbound_leg(101, ANN, root=101).event("ringing", 1),
        inbound_leg(102, BOB, root=101).event("ringing", 1),
    )
    mirror.poll(live(102, "RINGING"), when=10)
    assert mirror.calls("state", "unconfirmed", "legs") == [("ringing", 0, 2)]
    mirror.end_missing(101, when=11)
    assert mirror.calls("state", "unconfirmed") == [("ringing", 0)]


def test_a_clock_set_back_by_a_day_does_not_prevent_the_end_of_a_call(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 86_400
    set_now(monkeypatch, 10)
    mirror.apply(inbound_leg().event("ringing", 1))
    mirror.poll(live(101, "RINGING"), when=day)
    set_now(monkeypatch, 30)
    mirror.poll(live(101, "RINGING"), when=30)
    mirror.poll(when=45)
    assert mirror.calls("state", "unconfirmed") == [("ringing", 1)]
    mirror.end_missing(101, when=46)
    assert mirror.calls("state") == [("ended",)]


def test_an_older_poll_that_arrives_late_changes_nothing(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    mirror.poll(live(101, "CONNECTED", connected_at=int(T0) + 4), when=10)
    mirror.poll(live(101, "RINGING"), when=8)
    assert mirror.calls("state", "answered_at") == [("talking", at(4))]


def test_a_final_state_in_a_poll_ends_the_call_and_later_polls_change_nothing(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 60)
    mirror.apply(inbound_leg().event("ringing", 1))
    mirror.poll(live(101, "HANGUP"), when=30)
    expected = [("ended", 0, at(30), "missed")]
    assert mirror.calls("state", "unconfirmed", "ended_at", "outcome") == expected
    mirror.poll(live(101, "HANGUP"), when=45)
    mirror.poll(live(101, "RINGING"), when=60)
    assert mirror.calls("state", "unconfirmed", "ended_at", "outcome") == expected


def test_events_and_polls_without_news_announce_no_change(
    mirror: CallMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_now(monkeypatch, 10)
    ringing = inbound_leg().event("ringing", 1)
    mirror.apply(ringing, ringing)
    before = mirror.calls("change_no")
    mirror.poll(live(101, "RINGING"), when=10)
    mirror.poll(live(101, "RINGING"), when=25)
    changes = mirror.changes()
    assert mirror.calls("change_no") != before, "the poll is a new source"
    mirror.poll(live(101, "RINGING"), when=40)
    assert mirror.changes() == changes
    assert len(changes) == 2
    assert mirror.calls("due_at") == [(T0 + 40 + 60,)]
