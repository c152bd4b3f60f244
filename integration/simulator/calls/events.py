"""Webhook bodies of the platform.

They have the platform's order of keys, and ids of parties as text.
See docs/platform.md#10-event-fields.
"""

from __future__ import annotations

import random

from integration.core import clock
from integration.simulator.calls.legs import LEG_STATES, CallPlan, Leg, Step
from integration.simulator.calls.records import count_seconds_between
from integration.simulator.records.people import CUSTOMER_ID
from integration.simulator.records.record_fields import Record, copy_attributes

_STATE_BY_STEP = LEG_STATES | {"dtmf": "DTMF_RECEIVED"}
# The platform has no event call.accepted: an accepted click-to-call sends a second call.initial.
_EVENT_NAME_BY_STEP = {"pickup": "connected", "accepted": "initial"}


class EventIdGenerator:
    """Generator of event ids such as `uk003.608920d55f7ac3.77053295`.

    An id has the server, Unix seconds and microseconds in hexadecimal, a digit, and eight digits. Ids of
    events in ascending time order increase strictly, as those of a real uniqid() do.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last = (0, 0)

    def make(self, unix_time: float) -> str:
        seconds, micros = int(unix_time), int(unix_time % 1 * 1_000_000)
        last_seconds, last_micros = self._last
        if seconds == last_seconds and micros <= last_micros:
            micros = min(999_999, last_micros + 11)
        self._last = (seconds, micros)
        random_digits = self._rng.randrange(10**8)
        digit = self._rng.randrange(10)
        return f"uk003.{seconds:08x}{micros:05x}{digit}.{random_digits:08d}"


def call_event(event_id: str, plan: CallPlan, step: Step, unix_time: float) -> Record | None:
    """Build the webhook body of `step` at Unix time `unix_time`.

    Returns None for a step without a webhook: a mailbox answers. A plan in the form of the specification has
    no root_call_id and no final, and the state MISSED for call.missed.
    """
    leg = step.leg
    if step.event not in _STATE_BY_STEP:
        return None
    name = _EVENT_NAME_BY_STEP.get(step.event, step.event)
    answered_at = leg.answered_at
    record: Record = {
        "id": event_id,
        "event_time": clock.utc_text(unix_time),
        "event_name": f"call.{name}",
        "call_id": leg.id,
        "state": "MISSED" if plan.uses_documented_events and name == "missed" else _STATE_BY_STEP[step.event],
        "connected_at": clock.utc_text(answered_at) if answered_at is not None else None,
        "start_time": clock.utc_text(leg.started_at),
        **copy_attributes(leg, "context destination"),
        "duration": count_seconds_between(answered_at, unix_time),
    }
    if name != "dtmf":
        record["t_cause"] = step.cause
    record |= copy_attributes(leg, "src src_id src_name src_hash dst dst_id dst_name")
    if name == "dtmf":
        record |= {"dtmf_tag": step.dtmf, "dtmf_target": f"U:{leg.user.id}" if leg.user else ""}
    else:
        record["terminated_by"] = step.by
    if not plan.uses_documented_events:
        record["root_call_id"] = leg.root_id
        if name == "missed":
            record["final"] = step.final
    return record


def recording_event(event_id: str, unix_time: float, monitor: Record, leg: Leg) -> Record:
    return {
        "id": event_id,
        "event_time": clock.utc_text(unix_time),
        "event_name": "monitor.audio_ready",
        "monitor_id": monitor["id"],
        "call_id": leg.id,
        "customer_id": CUSTOMER_ID,
        "user_id": monitor["user_id"],
        **copy_attributes(leg, "src_id src src_name dst_id dst dst_name context"),
        "duration": monitor["duration"],
        "size": monitor["size"],
    }


def sms_event(event_id: str, unix_time: float, sms: Record) -> Record:
    """Build the webhook body of a received SMS."""
    return {
        "id": event_id,
        "event_time": clock.utc_text(unix_time),
        "event_name": "sms.received",
        "customer_id": CUSTOMER_ID,
        "user_id": sms["user_id"],
        "from_no": sms["from"],
        "to_no": sms["to"],
        "text": sms["message"],
    }
