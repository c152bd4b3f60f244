"""Records of calls, recordings, voicemail and SMS with the observed types (docs/platform.md#4-types)."""

from __future__ import annotations

import math

from integration.core import clock
from integration.simulator.calls.legs import CallPlan, Leg, VoicemailMessage
from integration.simulator.media import audio
from integration.simulator.records import numbers
from integration.simulator.records.account_state import AccountState
from integration.simulator.records.record_fields import Record, copy_attributes, make_record


def count_seconds_between(start: float | None, end: float | None) -> int:
    """Count the seconds between two Unix times; 0 if one is missing.

    Each time is truncated to seconds, like the platform's timestamps.
    """
    return 0 if start is None or end is None else math.floor(end) - math.floor(start)


def compute_billed_seconds(leg: Leg) -> int:
    return count_seconds_between(leg.talked_at, leg.ended_at)


def _get_price(leg: Leg) -> float:
    """Return the price per minute of a leg."""
    return numbers.get_rate(leg.dst) if leg.context == "PSTN_CALL" else 0.0


def _list_ends(leg: Leg) -> Record:
    """Return user agents and codecs of both ends."""
    user_end, other_end = ("src", "dst") if leg.is_outbound else ("dst", "src")
    agent = leg.user.user_agent if leg.user else None
    return {
        **{f"{user_end}_ua": agent, f"{user_end}_codec": "opus"},
        **{f"{other_end}_ua": None, f"{other_end}_codec": "PCMA"},
    }


def _get_user_ids(leg: Leg) -> Record:
    user = leg.user
    return {"user_id": user.id if user else None, "sip_endpoint_id": user.sip_endpoint_id if user else None}


def add_cdr(state: AccountState, leg: Leg) -> Record:
    """Add the CDR of an ended leg."""
    if leg.mailbox_connected_at is not None:
        disposition = "VM"
    elif leg.connected_at is not None:
        disposition = "ON_HOLD" if leg.ended_on_hold else "CONNECTED"
    else:
        disposition = "INITIAL" if leg.t_cause == "User busy" else "RINGING"
    billed_seconds, price = compute_billed_seconds(leg), _get_price(leg)
    has_called_user = not leg.is_outbound or leg.context == "USER_LOCAL"
    return state.create(
        "cdrs",
        **copy_attributes(leg, "clid src_name src dst dst_name destination context t_cause"),
        **_get_user_ids(leg),
        **_list_ends(leg),
        live_id=leg.id,
        parent_live_id=leg.parent_id,
        root_live_id=leg.root_id,
        is_root=leg.root_id == leg.id,
        type="O" if leg.is_outbound else "M" if leg.talked_at is None else "I",
        calldate=clock.utc_text(leg.started_at),
        src_id=leg.src_id if leg.is_outbound else None,
        dst_id=leg.dst_id if has_called_user else None,
        duration=count_seconds_between(leg.started_at, leg.ended_at),
        billsec=billed_seconds,
        disposition=disposition,
        rate=price,
        charge=round(price * billed_seconds / 60, 3),
        labels=list(leg.labels),
    )


def live_record(leg: Leg, now: float) -> Record:
    """Build a live call of /calls.

    It has words for codes, times in Unix seconds, and a caller ID with plus.
    """
    answered_at = leg.answered_at
    caller = leg.user.cli if leg.is_outbound and leg.user else leg.src
    names = "id parent_id state destination context src src_id src_name dst dst_id dst_name monitor_state"
    return make_record(
        "calls",
        **copy_attributes(leg, names),
        **_list_ends(leg),
        start_time=int(leg.started_at),
        connected_at=int(answered_at) if answered_at is not None else None,
        duration=count_seconds_between(answered_at, now),
        clid=f'"+{caller}" <+{caller}>' if caller else "anonymous",
        src_call_id=f"{leg.src_hash[:16]}@sip.example.net",
        dst_call_id=f"{leg.src_hash[16:32]}@sip.example.net",
        dst_rate=_get_price(leg) or 0,
        # The specification types this field as a number beside charges. The platform sends Unix seconds
        # once the destination of an outbound leg has answered.
        dst_connection=int(leg.connected_at) if leg.is_outbound and leg.connected_at is not None else None,
    )


def add_recording(state: AccountState, leg: Leg, conversation: Record) -> Record:
    """Add the recording of an ended, connected leg.

    `size` is in bytes of its MP3. `conversation`: as made by words.make_conversation, or {}.
    """
    duration = max(1, compute_billed_seconds(leg))
    return state.create(
        "monitors",
        **copy_attributes(leg, "context src_id dst_id dst_name"),
        **_get_user_ids(leg),
        timestamp=clock.utc_text(leg.connected_at if leg.connected_at is not None else leg.started_at),
        live_id=leg.id,
        type="O" if leg.is_outbound else "I",
        caller=leg.user.cli if leg.is_outbound and leg.user else leg.src,
        called=leg.dst,
        duration=duration,
        size=audio.compute_size(duration),
        **conversation,
    )


def add_voicemail(state: AccountState, message: VoicemailMessage, text: str | None) -> Record:
    """Add a voicemail message of an ended leg.

    A caller from abroad has the prefix `00`, the dialled number has none. See docs/platform.md#4-types.
    """
    leg = message.leg
    assert leg.ended_at is not None
    caller = f"00{leg.src}" if leg.src and not leg.src.startswith("44") else leg.src
    return state.create(
        "voicemessages",
        origtime=clock.utc_text(leg.ended_at - message.seconds),
        caller=caller,
        callerid=f'"{caller}" <{caller}>' if caller else "anonymous",
        dialled=leg.dst,
        duration=message.seconds,
        folder=1,
        is_new=True,
        extension_id=message.mailbox_owner.id,
        live_id=leg.id,
        parent_live_id=leg.parent_id,
        transcript=text,
    )


def add_webcall(state: AccountState, plan: CallPlan, started_at: float) -> Record:
    """Add the record of a web call, started at Unix time `started_at`.

    `bill_leg` sets durations and charges when the legs end.
    """
    first_number, second_number = plan.legs[0].dst, plan.legs[1].dst
    plan.webcall = state.create(
        "webcalls",
        **{"from": first_number, "to": second_number},
        calldate=clock.utc_text(started_at),
        from_rate=numbers.get_rate(first_number),
        to_rate=numbers.get_rate(second_number),
    )
    return plan.webcall


def bill_leg(record: Record, plan: CallPlan, leg: Leg) -> None:
    """Store duration and charge of an ended leg in its web call."""
    side = "from" if leg is plan.legs[0] else "to"
    seconds = compute_billed_seconds(leg)
    record[f"{side}_duration"] = seconds
    record[f"{side}_charge"] = round(record[f"{side}_rate"] * seconds / 60, 3)
    record["charge"] = round(record["from_charge"] + record["to_charge"], 3)
