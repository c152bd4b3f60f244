"""Interpret stored webhooks as typed events.

Accepts unexpected types but does not change values. Reads both dialects of the SMS event
(docs/platform.md#9-events). An event whose name is neither in the specification nor in docs/platform.md
becomes an `UnknownEvent`, which has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from integration.catalogue import events
from integration.core import clock
from integration.core.body_encodings import STORED_CHARSET, to_utf8
from integration.core.errors import PlatformBroken
from integration.core.ids import as_id, event_clock
from integration.core.json_records import JsonRecord, read_record_bytes, to_column_value
from integration.core.timestamps import parse_seconds
from integration.mirror.calls.facts import EARLIEST_SECONDS, CallEvent
from integration.mirror.page_queries.messages import SmsReceived

MAX_LEAD_SECONDS = 86_400
"""Seconds after its receipt up to which a time of an event is valid. No time zone explains a longer lead."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Fields of a body that the receiver stores as columns.

    `is_readable` is False for a body that is not a JSON object.
    """

    is_readable: bool
    event_id: str | None = None
    event_name: str | None = None
    call_id: int | str | None = None


@dataclass(frozen=True, slots=True)
class RecordingReady:
    """Event `monitor.audio_ready` (docs/platform.md#9-events): the file of a recording is available."""

    event_id: str
    event_time: str
    monitor_id: int | None
    leg_id: int | None


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """Event whose name is neither in the specification nor in docs/platform.md."""

    name: str | None


Event = CallEvent | SmsReceived | RecordingReady | UnknownEvent


def read_envelope(body: bytes) -> Envelope:
    """Read the envelope of `body`."""
    record = parse_body(body)
    if record is None:
        return Envelope(is_readable=False)
    values = record.values
    call_id = to_column_value(values.get("call_id"))
    return Envelope(
        is_readable=True,
        event_id=_to_text(values.get("id")) or None,
        event_name=_to_text(_first_value(values, *events.NAME_FIELDS)),
        call_id=call_id if isinstance(call_id, int | str) else None,
    )


def parse_body(body: bytes) -> JsonRecord | None:
    """Parse `body` as a record.

    Returns None unless it is a JSON object in Unicode or STORED_CHARSET.
    """
    try:
        values = orjson.loads(to_utf8(body, STORED_CHARSET))
    except orjson.JSONDecodeError:
        values = None
    if isinstance(values, dict):
        # The stored body preserves the exact record; this text only needs the same values.
        try:
            return JsonRecord(orjson.dumps(values).decode(), values)
        except (TypeError, orjson.JSONEncodeError):
            pass
    elif values is not None:
        return None
    try:
        return read_record_bytes(body)
    except PlatformBroken:
        return None


def interpret(record: JsonRecord, received_at: str, event_id: str, name: str | None) -> Event:
    """Make the event of a stored webhook.

    `record` is its body; the other parameters are columns of its row. `received_at` (UTC text) replaces a
    missing or invalid `event_time`. Times before EARLIEST_SECONDS, and more than MAX_LEAD_SECONDS after the
    receipt, are invalid. Raises ValueError for a call event without a valid call_id.
    """
    values = record.values
    latest = (parse_seconds(received_at) or 0) + MAX_LEAD_SECONDS
    occurred_at = _to_event_time(values.get("event_time"), latest) or received_at
    definition = events.get_event(name) if name is not None else None
    if definition is None:
        return UnknownEvent(name)
    if definition.kind == "call":
        return _make_call_event(record, definition.name, event_id, occurred_at, latest)
    if definition.kind == "sms":
        return SmsReceived(
            event_id,
            occurred_at,
            as_id(values.get("user_id")),
            _to_text(values.get("from_no")) or "",
            _to_text(values.get("to_no")) or "",
            _to_text(_first_value(values, "text", "texto")) or "",
            record.text,
        )
    return RecordingReady(
        event_id, occurred_at, as_id(values.get("monitor_id")), as_id(values.get("call_id"))
    )


def _make_call_event(
    record: JsonRecord, name: str, event_id: str, occurred_at: str, latest: int
) -> CallEvent:
    values = record.values
    leg_id = as_id(values.get("call_id"))
    if leg_id is None:
        raise ValueError(f"{name} has no valid call_id: {values.get('call_id')!r:.60}")
    server, micros = event_clock(event_id, occurred_at)
    return CallEvent(
        event_id=event_id,
        name=name,
        leg_id=leg_id,
        root_id=as_id(values.get("root_call_id")),
        event_time=occurred_at,
        micros=micros,
        server=server,
        state=_to_text(values.get("state")),
        connected_at=_to_event_time(values.get("connected_at"), latest),
        start_time=_to_event_time(values.get("start_time"), latest),
        context=_to_text(values.get("context")),
        destination=_to_text(values.get("destination")),
        duration=as_id(values.get("duration")),
        t_cause=_to_text(values.get("t_cause")),
        src=_to_text(values.get("src")),
        src_id=_to_text(values.get("src_id")),
        src_name=_to_text(values.get("src_name")),
        dst=_to_text(values.get("dst")),
        dst_id=_to_text(values.get("dst_id")),
        dst_name=_to_text(values.get("dst_name")),
        final=_to_bool(values.get("final")),
        terminated_by=_to_text(values.get("terminated_by")),
        dtmf_tag=_to_text(values.get("dtmf_tag")),
        dtmf_target=_to_text(values.get("dtmf_target")),
        doc=record.text,
    )


def _first_value(values: dict[str, Any], *names: str) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _to_text(value: Any) -> str | None:
    """Convert a value to text.

    Text is unchanged, a number becomes its digits, a nested value JSON text.
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(to_column_value(value)) if not isinstance(value, bool) else str(value).lower()


def _to_bool(value: Any) -> bool | None:
    """Convert true, 1, "1", "true" and their opposites to bool.

    Returns None for any other value.
    """
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "0": False, "false": False}.get(str(value).lower())


def _to_event_time(value: Any, latest: int) -> str | None:
    """Convert a time to UTC text; None unless it is from EARLIEST_SECONDS to `latest` (Unix seconds)."""
    text = _to_utc_text(value)
    seconds = parse_seconds(text)
    return text if seconds is not None and EARLIEST_SECONDS <= seconds <= latest else None


def _to_utc_text(value: Any) -> str | None:
    """Convert a time to UTC text; return None for an invalid time.

    A number is Unix seconds, which /calls uses for fields of the same names.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 32503680000:
        return clock.utc_text(float(value))
    moment = clock.parse_utc(value)
    return clock.utc_text(moment) if moment is not None else None
