"""Media sessions of connected legs on application phones, with detail records (msdrs).

The values of `status` (ACTIVE, ENDED) and `type` (audio) are invented.
"""

from __future__ import annotations

from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import Leg
from integration.simulator.calls.records import count_seconds_between
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import copy_attributes

Record = dict[str, Any]

HISTORY_DAYS = 30
"""Days before the start for which the seeded history has media sessions."""

_APPLICATION_PREFIXES = ("Desk", "Mobile")


def begin_session(state: AccountState, leg: Leg) -> None:
    """Add the media session of a connected leg on an application phone."""
    if leg.user is None or leg.connected_at is None or leg.session is not None:
        return
    if leg.user.user_agent is None or not leg.user.user_agent.startswith(_APPLICATION_PREFIXES):
        return
    stamp = clock.utc_text(leg.connected_at)
    leg.session = state.create(
        "mediasessions",
        call_id=f"{leg.src_hash[:16]}@sip.example.net",
        **copy_attributes(leg, "src_id dst_id"),
        src_ua=leg.user.user_agent if leg.is_outbound else None,
        dst_ua=None if leg.is_outbound else leg.user.user_agent,
        status="ACTIVE",
        created_at=stamp,
        updated_at=stamp,
        duration=0,
        user=leg.user.id,
    )


def end_session(state: AccountState, leg: Leg) -> None:
    """End the media session of a leg and add its detail record."""
    begin_session(state, leg)
    session = leg.session
    if session is None or leg.ended_at is None or leg.connected_at is None or leg.user is None:
        return
    duration = count_seconds_between(leg.connected_at, leg.ended_at)
    session.update(status="ENDED", duration=duration, updated_at=clock.utc_text(leg.ended_at))
    state.create(
        "msdrs",
        media_session_id=session["id"],
        user_id=leg.user.id,
        duration=duration,
        **{name: session[name] for name in ("call_id", "created_at", "src_ua", "dst_ua", "type")},
        **copy_attributes(leg, "src src_id dst dst_id t_cause"),
    )
