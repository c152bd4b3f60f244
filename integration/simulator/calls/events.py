"""Webhook bodies as the platform posts them (observed.md §1): its order of keys, ids of parties as text."""

from __future__ import annotations

import random
from typing import Any

from integration.core import clock
from integration.simulator.calls.legs import Leg, Step
from integration.simulator.calls.records import seconds_between
from integration.simulator.records.people import CUSTOMER_ID

Record = dict[str, Any]

_STATES = {
    "initial": "INITIAL",
    "accepted": "ACCEPTED",
    "ringing": "RINGING",
    "pickup": "CONNECTED",
    "connected": "CONNECTED",
    "hold": "ON_HOLD",
    "unhold": "CONNECTED",
    "dtmf": "DTMF_RECEIVED",
    "hangup": "HANGUP",
    "missed": "HANGUP",
}
# A click-to-call that was accepted is told as a further call.initial: the event names know no "accepted".
_NAMES = {"pickup": "connected", "accepted": "initial"}


class EventIds:
    """Ids like `uk003.608920d55f7ac3.77053295`: server, Unix seconds and microseconds in hex, a digit, eight
    digits. They rise strictly within the server, as those of a real uniqid() do."""

    def __init__(self, rng: random.Random, server: str = "uk003") -> None:
        self._rng = rng
        self._server = server
        self._last = (0, 0)

    def make(self, at: float) -> str:
        moment = (int(at), int(at % 1 * 1_000_000))
        if self._last[0] == moment[0] and moment[1] <= self._last[1]:
            moment = (moment[0], min(999_999, self._last[1] + 11))
        self._last = moment
        tail = self._rng.randrange(10**8)
        return f"{self._server}.{moment[0]:08x}{moment[1]:05x}{self._rng.randrange(10)}.{tail:08d}"


def call_event(event_id: str, step: Step, at: float, *, documented: bool) -> Record | None:
    """The event of `step` at Unix time `at`, or None where the platform tells nothing (a mailbox answering).

    `documented` gives the form of the specification: without root_call_id and final.
    """
    leg = step.leg
    if step.event not in _STATES:
        return None
    name = _NAMES.get(step.event, step.event)
    state = "MISSED" if documented and name == "missed" else _STATES[step.event]
    connected = _connected(leg)
    record: Record = {
        "id": event_id,
        "event_time": clock.stamp(at),
        "event_name": f"call.{name}",
        "call_id": leg.id,
        "state": state,
        "connected_at": clock.stamp(connected) if connected is not None else None,
        "start_time": clock.stamp(leg.started),
        "context": leg.context,
        "destination": leg.destination,
        "duration": seconds_between(connected, at) if connected is not None else 0,
    }
    if name != "dtmf":
        record["t_cause"] = step.cause
    record |= {
        "src": leg.src,
        "src_id": leg.src_id,
        "src_name": leg.src_name,
        "src_hash": leg.src_hash,
        "dst": leg.dst,
        "dst_id": leg.dst_id,
        "dst_name": leg.dst_name,
    }
    if name == "dtmf":
        record |= {"dtmf_tag": step.dtmf, "dtmf_target": f"U:{leg.user.id}" if leg.user else ""}
    else:
        record["terminated_by"] = step.by
    if not documented:
        record["root_call_id"] = leg.root_id
        if name == "missed":
            record["final"] = step.final
    return record


def _connected(leg: Leg) -> float | None:
    return leg.talk_from if leg.talk_from is not None else leg.connected


def recording_event(event_id: str, at: float, monitor: Record, leg: Leg) -> Record:
    return {
        "id": event_id,
        "event_time": clock.stamp(at),
        "event_name": "monitor.audio_ready",
        "monitor_id": monitor["id"],
        "call_id": leg.id,
        "customer_id": CUSTOMER_ID,
        "user_id": monitor["user_id"],
        "src_id": leg.src_id,
        "src": leg.src,
        "src_name": leg.src_name,
        "dst_id": leg.dst_id,
        "dst": leg.dst,
        "dst_name": leg.dst_name,
        "context": leg.context,
        "duration": monitor["duration"],
        "size": monitor["size"],
    }


def sms_event(event_id: str, at: float, sms: Record, *, translated: bool = False) -> Record:
    """sms.received; `translated` gives the names of the Portuguese documentation (observed.md §1.4)."""
    name, value, text = (
        ("nome_do_evento", "sms.recebido", "texto") if translated else ("event_name", "sms.received", "text")
    )
    return {
        "id": event_id,
        "event_time": clock.stamp(at),
        name: value,
        "customer_id": CUSTOMER_ID,
        "user_id": sms["user_id"],
        "from_no": sms["from"],
        "to_no": sms["to"],
        text: sms["message"],
    }
