"""Records of one kind: their fields, and who may see and change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from integration import catalogue
from integration.simulator.http.responses import (
    ErrorResponse,
    get_current_user,
    get_simulator_context,
    make_validation_error,
)

if TYPE_CHECKING:
    from integration.simulator.records.people import Person

Record = dict[str, Any]
AccessTest = Callable[[Record, "Person"], bool]

ACCOUNT_CREATED_AT = "2025-01-13 09:00:00"
"""When the account, and all that is as old, was created."""

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
    # `culture` 0 (English) is the one value seen; the rate has its observed default (observed.md §4).
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
"""Values of new records where they are not null."""

_RECORD_FIELD_NAMES = {"moh_id": "moh", "ivr_id": "ivr", "extension_id": "extension"}
"""Names that a body and its record do not share."""

_REFERENCES = {
    "ddis": "ddis",
    "ddi_e164": "ddis",
    "user_id": "users",
    "extension_id": "users",
    "button_id": "callmeback/buttons",
    "call_me_back_setting_id": "callmeback/settings",
    "campaign_id": "calltracking/campaigns",
    "post_call_ivr_id": "ivrs",
    "users groups": "usergroups",
}
"""Collections whose keys a body field holds, by field name or by collection and field name."""


def list_fields(name: str) -> tuple[str, ...]:
    """Fields that the list of collection `name` shows."""
    if name in _INVENTED_FIELDS:
        return tuple(_INVENTED_FIELDS[name].split())
    return tuple(field.name for field in catalogue.get_resource(name).fields if not field.item_only)


def make_record(collection: str, /, **values: Any) -> Record:
    """A record of `collection`: `values`, else its defaults, else null."""
    record: Record = dict.fromkeys(list_fields(collection))
    if "created_at" in record:
        record["created_at"] = ACCOUNT_CREATED_AT
    return {**record, **_DEFAULTS.get(collection, {}), **values}


def apply_fields(record: Record, fields: Record) -> None:
    """Set the fields of a checked body that `record` shows; others are accepted and ignored."""
    for name, value in fields.items():
        record_field = name if name in record else _RECORD_FIELD_NAMES.get(name, name)
        if record_field in record:
            record[record_field] = value


def check_references(name: str, fields: Record) -> None:
    """Raise ErrorResponse if a body for collection `name` refers to a record that does not exist."""
    collections = get_simulator_context().world.collections
    for field_name, value in fields.items():
        target = _REFERENCES.get(f"{name} {field_name}") or _REFERENCES.get(field_name)
        keys = value if isinstance(value, list) else [value]
        if target and any(key is not None and collections[target].find(str(key)) is None for key in keys):
            raise make_validation_error(field_name)


@dataclass(slots=True)
class Collection:
    """Records of one kind by key, in the order of their keys.

    `fields` are the names a query may use. `item` makes the form of the record's own path. `mine` says
    whether a person may read a record, `own` whether they may change it (default: as `mine`); without `mine`
    only administrators see the collection. `derive` gives the records of a collection that is only another
    view of records kept elsewhere.
    """

    name: str
    fields: Sequence[str]
    records: dict[Any, Record] = field(default_factory=dict)
    key: str = "id"
    item: Callable[[Record], Record] = dict
    mine: AccessTest | None = None
    own: AccessTest | None = None
    unfilterable: frozenset[str] = frozenset()
    derive: Callable[[], Iterable[Record]] | None = None

    def add(self, record: Record) -> Record:
        self.records[record[self.key]] = record
        return record

    def remove(self, record: Record) -> None:
        self.records.pop(record[self.key], None)

    def iterate_records(self) -> Iterable[Record]:
        return self.records.values() if self.derive is None else self.derive()

    def list_visible(self, person: Person) -> Iterable[Record]:
        """The records `person` may see, in order."""
        if person.is_root:
            return self.iterate_records()
        is_readable = self.mine
        return (
            []
            if is_readable is None
            else [record for record in self.iterate_records() if is_readable(record, person)]
        )

    def can_read(self, record: Record, person: Person) -> bool:
        return person.is_root or (self.mine is not None and self.mine(record, person))

    def can_write(self, record: Record, person: Person) -> bool:
        is_writable = self.own or self.mine
        return person.is_root or (is_writable is not None and is_writable(record, person))

    def find(self, key: str) -> Record | None:
        """The record whose key reads `key`, as in a path."""
        if self.derive is not None:
            return next((record for record in self.derive() if str(record.get(self.key)) == key), None)
        matching_record = self.records.get(key)
        if matching_record is None and key.isascii() and key.isdigit() and len(key) <= 20:
            matching_record = self.records.get(int(key))
        return matching_record


def make_owner_test(user_id_field: str) -> AccessTest:
    """Records whose field `user_id_field` holds the person's id."""
    return lambda record, person: bool(record[user_id_field] == person.id)


def is_shared_or_owned(record: Record, person: Person) -> bool:
    """Everybody's (`user_id` null), or the person's own."""
    return record["user_id"] is None or bool(record["user_id"] == person.id)


def get_readable_collection(name: str) -> Collection:
    """The collection `name` if the caller may see any of it. Raises Answered."""
    collection = get_simulator_context().world.collections[name]
    if collection.mine is None and not get_current_user().is_root:
        raise ErrorResponse(403, "Access denied")
    return collection


def get_permitted_record(name: str, key: str, *, for_write: bool = False) -> Record:
    """The record `key` of collection `name` if the caller may see (or `for_write`) it. Raises Answered."""
    collection = get_readable_collection(name)
    record = collection.find(key)
    if record is None:
        raise ErrorResponse(404, "Resource not found")
    is_allowed = collection.can_write if for_write else collection.can_read
    if not is_allowed(record, get_current_user()):
        raise ErrorResponse(403, "Access denied")
    return record
