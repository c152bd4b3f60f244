"""Records of calls, recordings, voicemail and SMS with the observed types (docs/platform.md#4-types)."""

from __future__ import annotations

import math
from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import Leg, VoicemailMessage
from integration.simulator.media import audio
from integration.simulator.records import numbers
from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import copy_attributes

Record = dict[str, Any]

_NO_CONVERSATION = dict.fromkeys(
    ("transcript", "transcript_speakers", "summary", "sentiment", "cx_score", "metadata")
)


def count_seconds_between(start: float, end: float) -> int:
    """Count the seconds between two Unix times.

    Each time is truncated to seconds, like the platform's timestamps.
    """
    return math.floor(end) - math.floor(start)


def compute_billed_seconds(leg: Leg) -> int:
    """Compute the connected seconds of an ended leg.

    Voicemail counts as connected, as on the platform.
    """
    start = leg.connected_at if leg.connected_at is not None else leg.mailbox_connected_at
    return 0 if start is None or leg.ended_at is None else count_seconds_between(start, leg.ended_at)


def cdr_record(cdr_id: int, leg: Leg) -> Record:
    """Build the CDR of an ended leg."""
    assert leg.ended_at is not None
    billed_seconds = compute_billed_seconds(leg)
    price = numbers.get_rate(leg.dst) if leg.context == "PSTN_CALL" else 0.0
    if leg.mailbox_connected_at is not None:
        disposition = "VM"
    elif leg.connected_at is not None:
        disposition = "ON_HOLD" if leg.ended_on_hold else "CONNECTED"
    else:
        disposition = "INITIAL" if leg.t_cause == "User busy" else "RINGING"
    destination_id = None if leg.context != "USER_LOCAL" else leg.dst_id
    agent = leg.user.user_agent if leg.user else None
    kind = (
        "O"
        if leg.is_outbound
        else "M"
        if leg.connected_at is None and leg.mailbox_connected_at is None
        else "I"
    )
    return {
        "id": cdr_id,
        "call_id": None,
        "live_id": leg.id,
        "parent_live_id": leg.parent_id,
        "root_live_id": leg.root_id,
        "is_root": leg.root_id == leg.id,
        "user_id": leg.user.id if leg.user else None,
        "sip_endpoint_id": leg.user.sip_endpoint_id if leg.user else None,
        "server_id": 12,
        "type": kind,
        "calldate": clock.utc_text(leg.started_at),
        "clid": leg.clid,
        "src_id": leg.src_id if leg.is_outbound else None,
        "src_name": leg.src_name,
        "src": leg.src,
        "src_ua": agent if leg.is_outbound else None,
        "src_codec": "opus" if leg.is_outbound else "PCMA",
        "dst_id": destination_id if leg.is_outbound else leg.dst_id,
        "dst": leg.dst,
        "dst_name": leg.dst_name,
        "dst_ua": None if leg.is_outbound else agent,
        "dst_codec": "PCMA" if leg.is_outbound else "opus",
        "duration": count_seconds_between(leg.started_at, leg.ended_at),
        "billsec": billed_seconds,
        "disposition": disposition,
        "destination": leg.destination,
        "context": leg.context,
        "rate": price,
        "charge": round(price * billed_seconds / 60, 3),
        "t_cause": leg.t_cause,
        "info": None,
        "labels": list(leg.labels),
        "metadata": None,
        "nb_notes": 0,
    }


def live_record(leg: Leg, now: float) -> Record:
    """Build a live call of /calls.

    It has words for codes, times in Unix seconds, and a caller ID with plus.
    """
    connected_at = leg.connected_at if leg.connected_at is not None else leg.agent_connected_at
    caller = leg.user.cli if leg.is_outbound and leg.user else leg.src
    return {
        **copy_attributes(
            leg, "id parent_id state destination context src src_id src_name dst dst_id dst_name"
        ),
        "start_time": int(leg.started_at),
        "connected_at": int(connected_at) if connected_at is not None else None,
        "duration": count_seconds_between(connected_at, now) if connected_at is not None else 0,
        "clid": f'"+{caller}" <+{caller}>' if caller else "anonymous",
        **_name_phones(leg),
        "src_call_id": f"{leg.src_hash[:16]}@sip.example.net",
        "dst_call_id": f"{leg.src_hash[16:32]}@sip.example.net",
        "src_rate": 0,
        "dst_rate": numbers.get_rate(leg.dst) if leg.context == "PSTN_CALL" else 0,
        # The specification types this field as a number beside charges. The platform sends Unix seconds
        # once the destination of an outbound leg has answered.
        "dst_connection": int(leg.connected_at) if leg.is_outbound and leg.connected_at is not None else None,
        "min_charge": 0,
        "monitor_state": leg.monitor_state,
        **dict.fromkeys(("src_contact", "dst_contact", "queue_state", "referred_by")),
    }


def _name_phones(leg: Leg) -> Record:
    """Return user agents and codecs of both ends."""
    agent = leg.user.user_agent if leg.user else None
    if leg.is_outbound:
        return {"src_ua": agent, "src_codec": "opus", "dst_ua": None, "dst_codec": "PCMA"}
    return {"src_ua": None, "src_codec": "PCMA", "dst_ua": agent, "dst_codec": "opus"}


def monitor_record(monitor_id: int, leg: Leg, conversation: Record | None) -> Record:
    """Build the recording of an ended, connected leg.

    `size` is in bytes of its MP3. `conversation`: as made by words.make_conversation.
    """
    duration = max(1, compute_billed_seconds(leg))
    return {
        "id": monitor_id,
        "timestamp": clock.utc_text(leg.connected_at if leg.connected_at is not None else leg.started_at),
        "live_id": leg.id,
        "user_id": leg.user.id if leg.user else None,
        "sip_endpoint_id": leg.user.sip_endpoint_id if leg.user else None,
        "type": "O" if leg.is_outbound else "I",
        "caller": leg.user.cli if leg.is_outbound and leg.user else leg.src,
        "called": leg.dst,
        **copy_attributes(leg, "context src_id dst_id dst_name"),
        "duration": duration,
        "size": audio.compute_size(duration),
        **(conversation or _NO_CONVERSATION),
    }


def voicemessage_record(
    message_id: int, message: VoicemailMessage, recorded_at: float, text: str | None
) -> Record:
    """Build a voicemail message.

    A caller from abroad has the prefix `00`, the dialled number has none. See docs/platform.md#4-types.
    """
    leg = message.leg
    caller = f"00{leg.src}" if leg.src and not leg.src.startswith("44") else leg.src
    return {
        "id": message_id,
        "origtime": clock.utc_text(recorded_at),
        "caller": caller,
        "callerid": f'"{caller}" <{caller}>' if caller else "anonymous",
        "dialled": leg.dst,
        "duration": message.seconds,
        "folder": 1,
        "is_new": True,
        "extension_id": message.mailbox_owner.id,
        "live_id": leg.id,
        "parent_live_id": leg.parent_id,
        "transcript": text,
    }


def sms_record(
    sms_id: int,
    created_at: float,
    *,
    sender: str,
    receiver: str,
    text: str,
    user: Person | None,
    inbound: bool,
    contact_name: str | None,
) -> Record:
    """Build an SMS record. `created_at` is in Unix seconds."""
    own_id, own_name = (str(user.id), user.name) if user else (None, None)
    return {
        "id": sms_id,
        "created_at": clock.utc_text(created_at),
        "from": sender,
        "from_id": None if inbound else own_id,
        "from_name": contact_name if inbound else own_name,
        "to": receiver,
        "to_id": own_id if inbound else None,
        "to_name": own_name if inbound else contact_name,
        "message": text,
        "type": "I" if inbound else "O",
        "result": None if inbound else "OK",
        "user_id": user.id if user else None,
    }
