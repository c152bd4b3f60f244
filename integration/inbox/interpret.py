"""A webhook's body → what happened. Tolerant of types, exact about values, ignorant of everything else.

Both dialects of the SMS event are read (observed.md §1.4). An event whose name is in the specification or
in observed.md is known; any other is `Unknown` and only kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from integration.catalogue import events
from integration.core import clock
from integration.core.errors import PlatformBroken
from integration.core.json_records import Document, Raw, column_value, read_object
from integration.mirror.calls.facts import CallEvent

_EVENT_ID = re.compile(
    r"^(?P<server>[^.]+)\.(?P<seconds>[0-9a-f]{8})(?P<micros>[0-9a-f]{5})[0-9a-f]?\.", re.I
)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the receiver needs of a body: whether it is a JSON object, and the keys it is filed under."""

    readable: bool
    event_id: str | None = None
    event_name: str | None = None
    call_id: int | str | None = None


@dataclass(frozen=True, slots=True)
class SmsReceived:
    """`sms.received` (specification, SMS-received event): someone sent us a message."""

    event_id: str
    at: str
    customer_id: int | None
    user_id: int | None
    sender: str
    receiver: str
    text: str
    doc: str


@dataclass(frozen=True, slots=True)
class RecordingReady:
    """`monitor.audio_ready` (observed.md §1.1): a recording's file can be fetched."""

    event_id: str
    at: str
    monitor_id: int | None
    leg_id: int | None
    user_id: int | None
    duration: int | None
    size: int | None
    doc: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a name that neither the specification nor observed.md has."""

    name: str | None


Event = CallEvent | SmsReceived | RecordingReady | Unknown


def read_envelope(body: bytes) -> Envelope:
    """The keys of `body`; not readable when it is no JSON object."""
    document = _read(body)
    if document is None:
        return Envelope(readable=False)
    values = document.values
    call_id = column_value(values.get("call_id"))
    return Envelope(
        readable=True,
        event_id=_text(values.get("id")) or None,
        event_name=_text(_first(values, *events.NAME_FIELDS)),
        call_id=call_id if isinstance(call_id, int | str) else None,
    )


def interpret(body: bytes, received_at: str, fallback_id: str) -> Event:
    """What `body` tells. `received_at` stands in for a missing or unreadable `event_time`.

    Raises PlatformBroken when the body is no JSON object, ValueError when a known event lacks what it
    is about (a call event without a usable call_id).
    """
    document = _read(body)
    if document is None:
        raise PlatformBroken("the body is not a JSON object")
    values, name = document.values, _text(_first(document.values, *events.NAME_FIELDS))
    event_id = _text(values.get("id")) or fallback_id
    at = _time(values.get("event_time")) or received_at
    known = events.event(name) if name is not None else None
    if known is None:
        return Unknown(name)
    if known.kind == "call":
        return _call(document, known.name, event_id, at)
    if known.kind == "sms":
        return SmsReceived(
            event_id,
            at,
            _int(values.get("customer_id")),
            _int(values.get("user_id")),
            _text(values.get("from_no")) or "",
            _text(values.get("to_no")) or "",
            _text(_first(values, "text", "texto")) or "",
            document.text,
        )
    return RecordingReady(
        event_id,
        at,
        _int(values.get("monitor_id")),
        _int(values.get("call_id")),
        _int(values.get("user_id")),
        _int(values.get("duration")),
        _int(values.get("size")),
        document.text,
    )


def _call(document: Document, name: str, event_id: str, at: str) -> CallEvent:
    values = document.values
    leg_id = _int(values.get("call_id"))
    if leg_id is None:
        raise ValueError(f"{name} without a usable call_id: {values.get('call_id')!r:.60}")
    server, micros = _order(event_id, at)
    return CallEvent(
        event_id=event_id,
        name=name,
        leg_id=leg_id,
        root_id=_int(values.get("root_call_id")),
        at=at,
        micros=micros,
        server=server,
        state=_text(values.get("state")),
        connected_at=_time(values.get("connected_at")),
        start_time=_time(values.get("start_time")),
        context=_text(values.get("context")),
        destination=_text(values.get("destination")),
        duration=_int(values.get("duration")),
        t_cause=_text(values.get("t_cause")),
        src=_text(values.get("src")),
        src_id=_text(values.get("src_id")),
        src_name=_text(values.get("src_name")),
        dst=_text(values.get("dst")),
        dst_id=_text(values.get("dst_id")),
        dst_name=_text(values.get("dst_name")),
        final=_bool(values.get("final")),
        terminated_by=_text(values.get("terminated_by")),
        dtmf_tag=_text(values.get("dtmf_tag")),
        dtmf_target=_text(values.get("dtmf_target")),
        doc=document.text,
    )


def _order(event_id: str, at: str) -> tuple[str | None, int | None]:
    """Server and microseconds from an event id made by `uniqid(prefix, true)` (observed.md §1.2).

    The microseconds count only where the id's seconds are within 1 of `event_time` (calls.md).
    """
    match = _EVENT_ID.match(event_id)
    moment = clock.parse_stamp(at)
    if match is None or moment is None:
        return None, None
    if abs(int(match["seconds"], 16) - moment.timestamp()) > 1:
        return match["server"], None
    return match["server"], int(match["micros"], 16)


def _read(body: bytes) -> Document | None:
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError:
        values = None
    if isinstance(values, dict):
        # The stored body is the exact record; this text only has to hold the same values.
        try:
            return Document(orjson.dumps(values).decode(), values)
        except (TypeError, orjson.JSONEncodeError):
            pass
    elif values is not None:
        return None
    try:
        return read_object(body.decode("utf-8-sig"))
    except (UnicodeDecodeError, PlatformBroken):
        return None


def _first(values: dict[str, Any], *names: str) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _text(value: Any) -> str | None:
    """Text as it came; numbers as their digits, anything nested as JSON."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(column_value(value)) if not isinstance(value, bool) else str(value).lower()


def _int(value: Any) -> int | None:
    """The 64-bit integer that a number or its digits stand for; None for anything else."""
    if isinstance(value, bool | Raw):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and value in _INT64 else None


def _bool(value: Any) -> bool | None:
    """true, 1, "1", "true" and their opposites; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "0": False, "false": False}.get(str(value).lower())


def _time(value: Any) -> str | None:
    """UTC text; Unix seconds, which /calls uses for the same names, are turned into it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 32503680000:
        return clock.stamp(float(value))
    moment = clock.parse_stamp(value)
    return clock.stamp(moment) if moment is not None else None
