"""Fields of new records and their default values."""

from __future__ import annotations

from typing import Any

from integration import catalogue

Record = dict[str, Any]

ACCOUNT_CREATED_AT = "2025-01-13 09:00:00"
"""UTC time of creation of the account and of its initial records."""

_INVENTED_FIELDS = {
    "calllabels": "id name color user_id created_at",
    "sms/cannedresponses": "id name text user_id created_at",
    "cdrs/notes": "id cdr_id user_id text created_at",
    "chatmsgs": "id chat_id user_id from name message created_at",
    "conversations": "id created_at channel src dst duration type user_id",
    "transactions": "id created_at amount currency_iso type result",
    "calltracking/campaigns": "id name url chat_setting_id call_me_back_setting_id "
    "call_tracking_setting_id rules created_at calldate",
    "calltracking/ddis": "id e164 campaign_id name",
    "calltracking/cdrs": "id cdr_id live_id user_id campaign_id calldate from to duration billsec "
    "source medium landing_page",
    "callmeback/buttons": "id name data_online data_offline created_at",
    "callmeback/websites": "id name url setting_id created_at",
    "callmeback/visitors": "id website_id phone country city ip ua landing_page referer nb_calls "
    "created_at last_seen_at",
    "callmeback/cdrs": "id cdr_id live_id user_id setting_id website_id calldate from to duration billsec "
    "disposition",
}
"""Fields of collections whose records the specification does not show."""

_DEFAULTS: dict[str, Record] = {
    "contacts": {"type": "C", "nb_call_attempts": 0, "global": True, "internal": False},
    "conferences": {"ann_join_leave": True, "monitor": False},
    "ivrs": {
        "language": "en",
        "timeout": 5,
        "repeats": 2,
        "ring_time": 20,
        "ext_dialing": True,
        "random_choice": False,
        "sounds": "welcome",
        "final_dst_type": "H",
    },
    "routingrules": {"source": "", "destination": "", "time_interval": ""},
    "calltracking/campaigns": {"rules": []},
    # `culture` 0 (English) is the only observed value. `max_call_rate` has its observed default
    # (docs/platform.md#4-types).
    "callmeback/settings": {
        "culture": 0,
        "position": 2,
        "allowed_countries": "GB,IE",
        "floating_icon": True,
        "show_to_allowed_countries_only": False,
        "title": "Shall we call you?",
        "welcome_screen_msg": "Leave your number, we ring in 30 seconds.",
        "max_call_rate": 0.15,
    },
    "reportschedules": {"format": "csv", "culture": "en", "status": "A", "timezone": "Europe/London"},
}
"""Default values of new records; other fields are null."""

_RECORD_FIELD_NAMES = {"moh_id": "moh", "ivr_id": "ivr", "extension_id": "extension"}
"""Names in records by names in request bodies, where they differ."""


def list_fields(name: str) -> tuple[str, ...]:
    """List the fields of records in the list of collection `name`."""
    if name in _INVENTED_FIELDS:
        return tuple(_INVENTED_FIELDS[name].split())
    return tuple(field.name for field in catalogue.get_resource(name).fields if not field.item_only)


def make_record(collection: str, /, **values: Any) -> Record:
    """Create a record of `collection` from `values`, its defaults, and null."""
    record: Record = dict.fromkeys(list_fields(collection))
    if "created_at" in record:
        record["created_at"] = ACCOUNT_CREATED_AT
    return {**record, **_DEFAULTS.get(collection, {}), **values}


def apply_fields(record: Record, fields: Record) -> None:
    """Set the fields of a validated body; ignore fields unknown to `record`."""
    for name, value in fields.items():
        record_field = name if name in record else _RECORD_FIELD_NAMES.get(name, name)
        if record_field in record:
            record[record_field] = value
