"""Paths of the own API in the OpenAPI document, under the tag *Switchroom*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from integration.api import calls, events, missed, reports
from integration.api.requests import DEFAULT_LIMIT, MAX_LIMIT
from integration.core.ids import MAX_ID
from integration.events.feed import KINDS
from integration.mirror.page_queries.call_labels import DIRECTION_LABELS, OUTCOMES
from integration.mirror.page_queries.reports import Figures
from integration.settings.api_paths import OWN_API_PATH
from integration.workspace import callbacks
from integration.workspace.callback_items import CallbackItem

Json = dict[str, Any]

TAG = "Switchroom"

_TEXT: Json = {"type": ["string", "null"]}
_COUNT: Json = {"type": "integer"}
_NUMBER: Json = {"type": ["integer", "null"]}
_ID: Json = {"type": "integer", "minimum": 0, "maximum": MAX_ID}
_NAMED_TYPES: Mapping[str, Json] = {
    "id": _ID,
    "labels": {"type": "array", "items": {"type": "string"}},
    "charge": {"type": ["number", "null"]},
    **dict.fromkeys(("user_id", "wait_seconds", "ivr_seconds", "talk_seconds", "hold_seconds"), _NUMBER),
    **dict.fromkeys(("legs", "recordings", "voicemails"), _COUNT),
}
_CALL: Json = {
    "type": "object",
    "description": "Columns of the view `v_calls`, and the labels of the call. Times are UTC; `…_local` are "
    "times of the display zone.",
    "properties": {
        name: _NAMED_TYPES.get(name, _TEXT)
        for name in (
            *("id", "direction", "outcome", "state", "started_at", "started_local", "utc_offset"),
            *("answered_at", "answered_local", "ended_at", "ended_local", "wait_seconds", "ivr_seconds"),
            *("talk_seconds", "hold_seconds", "party", "party_e164", "party_name", "our_number", "our_e164"),
            *("group_kind", "group_name", "user_id", "user_name", "extension", "ended_by", "t_cause"),
            *("charge", "currency", "legs", "recordings", "voicemails", "labels"),
        )
    },
}
_MERGED: Json = {
    **_NUMBER,
    "description": "With `changed_after` only: `id` is no call any more, but part of this one, or null",
}
_PARAMETERS: Mapping[str, str] = {
    "from": "First day (`2026-10-01`, display zone) or first moment (UTC)",
    "to": "Last day, included, or end (UTC), not included",
    "party": "Number of the outside party, in any notation",
    "line": "Number of the account",
    "person": "Id of the platform user who answered or placed the call",
    "direction": "Direction",
    "outcome": "Outcome of ended calls",
    "open": "1: calls that have not ended",
    "state": "State of the items; open without it",
    "limit": "Entries of a page",
    "next": "`next` of the page before",
    "changed_after": "`next` of an earlier response to this parameter, or `0`; the only other one is `limit`",
    "after": "`next` of the response before, or the `id` of an event; from now without it",
    "kinds": f"Some of {', '.join(KINDS)}, with commas",
    "wait": "Seconds to wait for an event",
}
_PARAMETER_SCHEMAS: Mapping[str, Json] = {
    "person": _ID,
    "direction": {"enum": list(DIRECTION_LABELS)},
    "outcome": {"enum": list(OUTCOMES)},
    "open": {"enum": ["0", "1"]},
    "state": {"enum": ["open", "closed"]},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "kinds": {"type": "string", "example": "call.ended,gap"},
    "wait": {"type": "integer", "minimum": 0, "maximum": events.MAX_WAIT, "default": 0},
}
"""Schemas of parameters that are not any text."""


def build_own_paths() -> dict[str, Json]:
    """Return the path items of the own API. Their server is the root, unlike that of the facade."""
    item = _build_object_schema(CallbackItem)
    number, period = {"id": _ID}, {"period": {"type": "string"}}
    operations = {
        "/calls": _build(
            "get", "list_joined_calls", "Calls, newest first, or by their last change.", "cdrs",
            _describe_list({**_CALL, "properties": {**_CALL["properties"], "merged_into": _MERGED}}),
            query=calls.LIST_PARAMETERS,
        ),
        "/calls/{id}": _build(
            "get", "get_joined_call", "A call with legs, events, recordings and notes.", "cdrs",
            _describe_call(), path=number,
        ),
        "/missed": _build(
            "get", "list_callbacks", "Call-back items, latest attempt first.", "workspace",
            _describe_list(item), query=missed.LIST_PARAMETERS,
        ),
        "/events": _build(
            "get", "list_events", "Events after a cursor, in order. Waits for the next one.",
            "cdrs, sms or workspace", _describe_events(), query=events.LIST_PARAMETERS,
        ),
        "/reports/{period}": _build(
            "get", "get_report", "Figures of a period of at most 400 days.", "workspace",
            _describe_report(), path=period,
        ),
    }  # fmt: skip
    for action, summary in (
        ("claim", "Assign an item to a dashboard user. 409 if another user claimed it."),
        ("done", "Close an item."),
        ("note", "Replace the note of an item."),
    ):
        operations[f"/missed/{{id}}/{action}"] = _build(
            "post", f"{action}_callback", summary, "workspace", _describe_object({"data": item}),
            path=number, body=missed.ACTIONS[action][1], required=("owner",) if action == "claim" else (),
        )  # fmt: skip
    return {f"{OWN_API_PATH}{path}": operation for path, operation in operations.items()}


def _build(
    method: str,
    operation_id: str,
    summary: str,
    needs: str,
    schema: Json,
    *,
    query: Sequence[str] = (),
    path: Mapping[str, Json] | None = None,
    body: Sequence[str] = (),
    required: Sequence[str] = (),
) -> Json:
    """Return a path item. `needs`: the collection or the right that a key needs."""
    operation: Json = {
        "operationId": operation_id,
        "tags": [TAG],
        "summary": summary,
        "description": f"Answered by Switchroom, for local keys with `{needs}`.",
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": value}
                for name, value in (path or {}).items()
            ),
            *(
                {
                    "name": name,
                    "in": "query",
                    "schema": _PARAMETER_SCHEMAS.get(name, {"type": "string"}),
                    "description": _PARAMETERS[name],
                }
                for name in query
            ),
        ],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": schema}}},
            "default": {"$ref": "#/components/responses/error"},
        },
        "servers": [{"url": "/"}],
        "x-policy": "local",
    }
    if body:
        properties = {name: {"type": "string", "maxLength": callbacks.MAX_NOTE_LENGTH} for name in body}
        body_schema: Json = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            body_schema["required"] = list(required)
        operation["requestBody"] = {
            "required": bool(required),
            "content": {"application/json": {"schema": body_schema}},
        }
        operation["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"},
             "description": "A repeated request with this key happens once"}
        )  # fmt: skip
    return {method: operation}


def _describe_object(properties: Json) -> Json:
    return {
        "type": "object",
        "required": [name for name in properties if name != "notes"],
        "properties": properties,
    }


def _describe_list(entry: Json) -> Json:
    return _describe_object({"data": {"type": "array", "items": entry}, "next": _TEXT})


def _describe_call() -> Json:
    rows = {"type": "array", "items": {"type": "object"}}
    note = _describe_object({"at": _TEXT, "by": {"type": "string"}, "text": {"type": "string"}})
    return _describe_object(
        {
            "data": _CALL,
            "legs": {**rows, "description": "Columns of the view `v_legs`"},
            "events": rows,
            "recordings": {**rows, "description": "`path` is below a base path of the facade"},
            "notes": {"type": "array", "items": note},
        }
    )


def _describe_events() -> Json:
    event = {
        "id": {"type": "string"},
        "type": {"enum": list(KINDS)},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {"type": "object", "description": "The call, message or call-back item at present"},
    }
    entries = {"type": "array", "items": _describe_object(event)}
    return _describe_object({"data": entries, "next": {"type": "string"}})


def _describe_report() -> Json:
    figures = _build_object_schema(Figures)
    average: Json = {"type": ["number", "null"]}
    computed = dict.fromkeys(("service_level_percent", "average_wait", "average_talk"), average)
    figures["properties"] |= {"unanswered": _COUNT, **computed}
    part = {
        "type": "array",
        "items": {"type": "object", "properties": {"key": _TEXT, "name": _TEXT, **figures["properties"]}},
    }
    day = {"type": "object", "properties": {"day": {"type": "string"}, **figures["properties"]}}
    called_back = dict.fromkeys(("unanswered", "within_an_hour", "within_a_day"), _COUNT)
    text: Json = {"type": "string"}
    report = {
        **dict.fromkeys(("from", "to", "timezone"), text),
        "currency": _TEXT,
        "total": figures,
        "called_back": _describe_object(called_back),
        "days": {"type": "array", "items": day},
        **dict.fromkeys(reports.PARTS, part),
    }
    return _describe_object({"data": _describe_object(report)})


def _build_object_schema(shape: type) -> Json:
    """Return the schema of a dataclass with texts and numbers."""
    types = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, str | None: _TEXT}
    types[int | None] = _NUMBER
    hints = get_type_hints(shape)
    return {
        "type": "object",
        "properties": {member.name: types[hints[member.name]] for member in fields(shape)},
    }
