"""The 165 operations of the platform, read from the specification (chapter Endpoints).

Nothing here is derived from the catalogue or the simulator: a mistake that both share must not pass.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tests.catalogue import specification

Envelope = Literal["list", "item", "message", "free", "empty", "file"]

_ENVELOPES: dict[str, Envelope] = {"collection": "list", "item": "item", "message": "message"}
"""Envelopes by word in the description of the response."""
_RECORDS = {
    "aclroles": "acl_role",
    "calls": "live_call",
    "webcalls": "webcall",
    "leadcalls": "live_call",
    "mediasessions": "media_session",
    "sms": "sms",
    "faxes": "fax",
    "vmannouncements": "voicemail_announcement",
    "contacts": "contact",
    "conferences": "conference",
    "ddis": "ddi",
    "queues": "queue",
    "ringgroups": "ring_group",
    "pickupgroups": "pickup_group",
    "routingrules": "routing_rule",
    "ivrs": "ivr",
    "queuegroups": "queue_group",
    "users": "user",
    "me": "current_user",
    "usergroups": "user_group",
    "usergrouppolicies": "user_group",
    "chats": "chat",
    "cdrs": "cdr",
    "monitors": "monitor",
    "msdrs": "msdr",
    "voicemessages": "voicemessage",
    "callmeback/settings": "callmeback_setting",
    "reportschedules": "report_schedule",
}
"""Keys in RECORD_FIELDS by collection; others have no fields in the specification."""


class DocumentedOperation(NamedTuple):
    """Row of the specification.

    `refusals` are the other statuses. `envelope` is the form of a successful body: 'list' `{data: [...],
    total}`, 'item' `{data: {...}, links}`, 'message' `{message}`, 'free' any JSON because the specification
    shows none, 'empty' no body, 'file' other content than JSON. `record` is the key in RECORD_FIELDS, ''
    where the specification shows no fields or those of a different resource.
    """

    method: str
    path: str
    success: tuple[int, ...]
    refusals: tuple[int, ...]
    envelope: Envelope
    record: str = ""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _find_envelope(row: specification.Row) -> Envelope:
    if row.method == "DELETE":
        return "empty"
    if "." in row.path:
        return "file"
    # Its rows show statuses only; it has the form of /usergroups.
    if row.path == "/usergrouppolicies" and row.method == "GET":
        return "list"
    if row.path.startswith("/usergrouppolicies") or row.path in ("/ddis/{e164}", "/me"):
        return "item"
    return next((envelope for word, envelope in _ENVELOPES.items() if word in row.response), "free")


def _read_operation(row: specification.Row) -> DocumentedOperation:
    envelope, record = _find_envelope(row), ""
    if envelope in ("list", "item"):
        record = _RECORDS.get(row.path[1:].partition("/{")[0], "")
    if (row.method, row.path) == ("GET", "/users"):
        record = "user_in_list"
    return DocumentedOperation(row.method, row.path, row.success, row.errors, envelope, record)


DOCUMENTED_OPERATIONS = tuple(map(_read_operation, specification.rows()))
