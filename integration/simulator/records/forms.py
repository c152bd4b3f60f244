"""Forms of request bodies: catalogue fields with checks by name or type.

The catalogue has no enumerations of these values. Strategy M and the choice of required fields are invented.
"""

from __future__ import annotations

import functools
from typing import Any

import orjson

from integration import catalogue
from integration.catalogue.shapes import FieldType
from integration.simulator.http import bodies
from integration.simulator.http.bodies import Check, Form
from integration.simulator.records.record_fields import list_code_values

# The meanings of monitor_state are undocumented. A live call has `A` while the user's setting records it.
MONITOR_STATES = {"start": "A", "resume": "A", "A": "A", "pause": "P", "P": "P"}
"""monitor_state in records by its values in bodies."""
_POSITIONS = {"left": 1, "right": 2, "1": 1, "2": 2}


def _frequency(value: Any) -> str:
    """Validate a frequency object; return the JSON text of its record."""
    frequency = bodies.json_object(value)
    bodies.one_of("D", "W", "M")(frequency.get("type"))
    return orjson.dumps(frequency).decode()


_TYPE_CHECKS: dict[FieldType, Check] = {
    "integer": bodies.integer,
    "number": bodies.number,
    "string": bodies.text,
    "boolean": bodies.boolean,
    "array": bodies.list_of(),
    "object": bodies.json_object,
    "timestamp": bodies.timestamp,
    "any": bodies.any_value,
}
_FIELD_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("name", "text", "action", "note", "message"), bodies.non_empty_text),
    **dict.fromkeys(("id", "user_id", "folder"), bodies.integer),
    **dict.fromkeys(("e164", "pin", "pin_pstn", "to", "from", "dst"), bodies.phone_digits),
    **dict.fromkeys(("url", "privacy_policy_url", "action_url"), bodies.url),
    **dict.fromkeys(("source", "destination", "time_interval", "post_sounds"), bodies.comma_joined),
    **dict.fromkeys(("start_at", "end_at"), bodies.timestamp),
    **dict.fromkeys(("strategy", "ring_strategy"), bodies.one_of("A", "H", "M")),
    "final_dst_type": bodies.one_of(*list_code_values("ringgroups", "final_dst_type")),
    "direction": bodies.one_of("I", "O"),
    "ddis": bodies.list_of(bodies.phone_digits),
    "rules": bodies.list_of(bodies.json_object),
    "data": bodies.audio_file,
    "emails": lambda value: ",".join(bodies.list_of(bodies.email)(value)),
    "format": bodies.one_of(*list_code_values("reportschedules", "format")),
    "status": bodies.one_of("A", "P"),
    "report_id": lambda value: bodies.one_of(*list_code_values("reportschedules", "report_id"))(
        bodies.integer(value)
    ),
    "frequency": _frequency,
    "position": lambda value: _POSITIONS[bodies.one_of(*_POSITIONS)(str(value))],
    "allowed_countries": lambda value: ",".join(
        bodies.list_of(bodies.text)([value] if isinstance(value, str) else value)
    ),
    # These names have other meanings in other collections.
    "users groups": bodies.list_of(bodies.integer),
    "ringgroups users": bodies.list_of(bodies.integer),
    "cdrs labels": bodies.list_of(bodies.non_empty_text),
    "calls labels": bodies.list_of(bodies.non_empty_text),
    "calls from": bodies.any_value,
    "calls caller_id": bodies.non_empty_text,
    "calls state": bodies.one_of("CONNECTED", "answer"),
    "monitor_state": bodies.one_of(*MONITOR_STATES),
}
"""Checks by field name, or by 'collection field'."""

_REQUIRED = {
    *("to", "message", "webcalls from", "name", "text", "extension_id", "data", "action", "direction"),
    *("report_id", "emails", "frequency", "e164", "campaign_id", "folder"),
}
_UNDOCUMENTED_FIELDS = {
    "calllabels": ("name", "color", "user_id"),
    "sms/cannedresponses": ("user_id",),
    "queuegroups": ("name",),
    "callmeback/buttons": ("name",),
    "cdrs": ("id", "labels", "metadata", "info", "note"),
}
"""Body fields that the specification does not show."""


@functools.cache
def make_form(name: str, *, is_bulk: bool = False) -> Form:
    """Create the form of bodies that write records of collection `name`."""
    checks: dict[str, Check] = {}
    for operation in catalogue.OPERATIONS:
        if operation.path.partition("/{")[0] == f"/{name}" and operation.is_bulk == is_bulk:
            for field in operation.body or ():
                checks[field.name] = _find_check(name, field.name, field.type)
    for field_name in _UNDOCUMENTED_FIELDS.get(name, ()):
        checks[field_name] = _find_check(name, field_name, "string")
    required = _REQUIRED if not is_bulk or "e164" in checks else _REQUIRED | {"id"}
    return Form(
        checks, tuple(field for field in checks if not required.isdisjoint((field, f"{name} {field}")))
    )


def _find_check(name: str, field_name: str, field_type: FieldType) -> Check:
    own_check = _FIELD_CHECKS.get(f"{name} {field_name}") or _FIELD_CHECKS.get(field_name)
    return own_check or _TYPE_CHECKS[field_type]
