"""Media sessions of connected legs on application phones, with detail records (msdrs).

The values of `status` (ACTIVE, ENDED) and `type` (audio) are invented; see dictionaries.py.
"""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import Leg
from integration.simulator.calls.records import count_seconds_between
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.store import make_owner_test

Record = dict[str, Any]

HISTORY_DAYS = 30
"""Days before the start for which the seeded history has media sessions."""

_APPLICATION_PREFIXES = ("Desk", "Mobile")


def add_collections(state: AccountState) -> None:
    state.add_collection("mediasessions", read_test=make_owner_test("user"))
    state.add_collection("msdrs", read_test=make_owner_test("user_id"))


def begin_session(state: AccountState, leg: Leg) -> None:
    """Add the media session of a connected leg on an application phone."""
    if leg.user is None or leg.connected_at is None or leg.session is not None:
        return
    if leg.user.user_agent is None or not leg.user.user_agent.startswith(_APPLICATION_PREFIXES):
        return
    stamp = clock.utc_text(leg.connected_at)
    leg.session = state.collections["mediasessions"].add(
        {
            "id": state.new_id("mediasessions"),
            "call_id": f"{leg.src_hash[:16]}@sip.example.net",
            "src_id": leg.src_id,
            "src_ua": leg.user.user_agent if leg.is_outbound else None,
            "dst_id": leg.dst_id,
            "dst_ua": None if leg.is_outbound else leg.user.user_agent,
            "status": "ACTIVE",
            "type": "audio",
            "created_at": stamp,
            "updated_at": stamp,
            "duration": 0,
            "user": leg.user.id,
        }
    )


def end_session(state: AccountState, leg: Leg) -> None:
    """End the media session of a leg and add its detail record."""
    begin_session(state, leg)
    session = leg.session
    if session is None or leg.ended_at is None or leg.connected_at is None or leg.user is None:
        return
    duration = count_seconds_between(leg.connected_at, leg.ended_at)
    session.update(status="ENDED", duration=duration, updated_at=clock.utc_text(leg.ended_at))
    state.collections["msdrs"].add(
        {
            "id": state.new_id("msdrs"),
            "media_session_id": session["id"],
            "user_id": leg.user.id,
            "call_id": session["call_id"],
            "created_at": session["created_at"],
            "duration": duration,
            "src": leg.src,
            "src_id": leg.src_id,
            "src_ua": session["src_ua"],
            "dst": leg.dst,
            "dst_id": leg.dst_id,
            "dst_ua": session["dst_ua"],
            "t_cause": leg.t_cause,
            "type": session["type"],
        }
    )
