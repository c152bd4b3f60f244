"""Request checks: permissions of the user, and references to other records."""

from __future__ import annotations

from typing import Any

from integration.simulator.context import get_current_user, get_world
from integration.simulator.http.responses import ErrorResponse, make_validation_error
from integration.simulator.records.store import Collection

Record = dict[str, Any]

_REFERENCES = {
    "ddis": "ddis",
    "ddi_e164": "ddis",
    "user_id": "users",
    "extension_id": "users",
    "users": "users",
    "button_id": "callmeback/buttons",
    "call_me_back_setting_id": "callmeback/settings",
    "campaign_id": "calltracking/campaigns",
    "post_call_ivr_id": "ivrs",
    "users groups": "usergroups",
}
"""Referenced collections by body field, or by 'collection field'."""


def check_references(name: str, fields: Record) -> None:
    """Check that the records to which a body refers exist.

    `name`: collection of the body. Raises ErrorResponse.
    """
    collections = get_world().collections
    for field_name, value in fields.items():
        target = _REFERENCES.get(f"{name} {field_name}") or _REFERENCES.get(field_name)
        if target is None or value is None:
            continue
        for entry in value if isinstance(value, list) else [value]:
            key = entry.get("id") if isinstance(entry, dict) else entry
            if collections[target].find(str(key)) is None:
                raise make_validation_error(field_name)


def get_readable_collection(name: str) -> Collection:
    """Return collection `name`.

    Raises ErrorResponse if the user cannot read any of its records.
    """
    collection = get_world().collections[name]
    if not collection.owners and not get_current_user().is_root:
        raise ErrorResponse(403, "Access denied")
    return collection


def get_permitted_record(name: str, key: str, *, for_write: bool = False) -> Record:
    """Return record `key` of collection `name`.

    Raises ErrorResponse if it does not exist or the user cannot read it (`for_write`: change it).
    """
    collection = get_readable_collection(name)
    record = collection.find(key)
    if record is None:
        raise ErrorResponse(404, "Resource not found")
    is_allowed = collection.can_write if for_write else collection.can_read
    if not is_allowed(record, get_current_user()):
        raise ErrorResponse(403, "Access denied")
    return record
