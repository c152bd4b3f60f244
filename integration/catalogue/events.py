"""Names and fields of the platform's webhooks.

Sources are the specification and docs/platform.md. The webhook of a queue's post-call panel is missing,
because its name and payload were never observed (docs/platform.md#9-events).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from integration.catalogue.rows import make_fields
from integration.catalogue.shapes import Field

EventKind = Literal["call", "sms", "recording"]


@dataclass(frozen=True, slots=True)
class Event:
    """Type of webhook."""

    name: str
    kind: EventKind
    about: str
    fields: tuple[Field, ...]


NAME_FIELDS = ("event_name", "nome_do_evento")
"""Fields that contain the name of an event, English dialect first (docs/platform.md#9-events)."""

_ID_FIELD = Field("id", "string", "<server>.<8 hex: Unix seconds><5 hex: microseconds><digit>.<8 digits>")
_TIME_FIELD = Field("event_time", "string", "'YYYY-MM-DD HH:MM:SS', UTC")

_CALL_FIELDS = (
    _ID_FIELD,
    _TIME_FIELD,
    Field("event_name", "string", meaning="open_code"),
    Field("call_id", "integer", "id of the leg: id of /calls, live_id of CDRs and monitors; exceeds 32 bits"),
    Field("state", "string", "open set", meaning="open_code"),
    Field("connected_at", "string", "UTC; null when not connected"),
    Field("start_time", "string", "UTC"),
    Field(
        "context",
        "string",
        "call context, e.g. RG-<id>, LOCAL_USER, PSTN_CALL; open set",
        meaning="open_code",
    ),
    Field("destination", "string", "in or out", meaning="open_code"),
    Field("duration", "integer", "seconds", meaning="duration"),
    Field("t_cause", "string", "termination cause", meaning="open_code"),
    Field("src", "string", "source number, digits without plus; empty when withheld", meaning="phone"),
    Field("src_id", "integer", "source id, 0 for an outside party", observed="string"),
    Field("src_name", "string", "may contain quotes, angle brackets, a prefix"),
    Field("dst", "string", "destination number", meaning="phone"),
    Field("dst_id", "integer", "destination id, 0 for an outside party", observed="string"),
    Field("dst_name", "string"),
    Field("src_hash", "string", "40 hexadecimal digits", documented=False),
    Field(
        "terminated_by", "string", "observed value: caller; open set", documented=False, meaning="open_code"
    ),
    Field("root_call_id", "integer", "groups the legs of one call", documented=False),
)
_MISSED_CALL_FIELDS = (
    *_CALL_FIELDS,
    Field("final", "boolean", "false: this leg ended; true: the call ended", documented=False),
)
_DTMF_FIELDS = (
    *_CALL_FIELDS,
    Field("dtmf_tag", "string", documented=False),
    Field("dtmf_target", "string", "such as U:1000002", documented=False),
)
_SMS_FIELDS = (
    _ID_FIELD,
    _TIME_FIELD,
    Field("customer_id", "integer", "account that received the SMS"),
    Field("user_id", "integer", "user that received the SMS; null or absent where none"),
    Field("from_no", "string", "sender", meaning="phone"),
    Field("to_no", "string", "number that received the SMS", meaning="phone"),
)
_RECORDING_FIELDS = (
    *(Field(field.name, field.type, field.about, documented=False) for field in (_ID_FIELD, _TIME_FIELD)),
    *make_fields("string", "event_name:open_code", documented=False),
    *make_fields("integer", "monitor_id call_id customer_id user_id", documented=False),
    *make_fields(
        "string", "src_id src:phone src_name dst_id dst:phone dst_name context:open_code", documented=False
    ),
    Field("duration", "integer", "seconds", documented=False, meaning="duration"),
    Field("size", "integer", "bytes of the MP3", documented=False, meaning="bytes"),
)

EVENTS: tuple[Event, ...] = (
    Event("call.initial", "call", "An invitation was sent to the phone.", _CALL_FIELDS),
    Event("call.ringing", "call", "The phone is ringing.", _CALL_FIELDS),
    Event("call.missed", "call", "A leg ended unanswered, or the call was missed.", _MISSED_CALL_FIELDS),
    Event("call.connected", "call", "The phone was answered.", _CALL_FIELDS),
    Event("call.hangup", "call", "The leg ended.", _CALL_FIELDS),
    Event("call.hold", "call", "The leg was paused.", _CALL_FIELDS),
    Event("call.unhold", "call", "The leg was resumed after a pause.", _CALL_FIELDS),
    Event(
        "call.dtmf",
        "call",
        "A key was pressed; the state of the leg is unchanged.",
        _DTMF_FIELDS,
    ),
    Event(
        "sms.recebido",
        "sms",
        "An SMS was received, in the dialect of the Portuguese page.",
        (
            *_SMS_FIELDS,
            Field("nome_do_evento", "string", meaning="open_code"),
            Field("texto", "string", "body of the message"),
        ),
    ),
    Event(
        "sms.received",
        "sms",
        "An SMS was received, in the dialect of the English page.",
        (*_SMS_FIELDS, *make_fields("string", "event_name:open_code text:text", documented=False)),
    ),
    Event(
        "monitor.audio_ready",
        "recording",
        "A recording can be downloaded.",
        _RECORDING_FIELDS,
    ),
)

EVENT_FIELDS: tuple[Field, ...] = tuple(field for event in EVENTS for field in event.fields)

_BY_NAME = {event.name: event for event in EVENTS}


def get_event(name: str) -> Event | None:
    """Return the event with this name; None for an unknown name."""
    return _BY_NAME.get(name)
