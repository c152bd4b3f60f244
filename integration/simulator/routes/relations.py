"""Query parameters `include=` (embed related records) and `fields[…]` (select fields).

`users` and `ddis` of ring groups and queues are specified or observed (docs/platform.md#3-collections). The
other names are invented, one for each relation in the fields of a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import request

from integration.simulator.calls.world import World
from integration.simulator.context import get_simulator_context

Record = dict[str, Any]
# Returns the value of a relation: a record, a list of records, or None.
FindRelated = Callable[[World, Record], Any]


def _make_single_relation(field: str, name: str) -> FindRelated:
    def related(world: World, record: Record) -> Any:
        key = record.get(field)
        return None if key is None else world.collections[name].find(str(key))

    return related


def _make_call_relation(name: str, field: str = "live_id", own_field: str = "live_id") -> FindRelated:
    def related(world: World, record: Record) -> Any:
        return [
            row for row in world.collections[name].iterate_records() if row[field] == record.get(own_field)
        ]

    return related


def _list_agents(world: World, record: Record) -> Any:
    group = world.get_group(record["id"])
    return [
        {
            "id": person.id,
            "first_name": person.first_name,
            "last_name": person.last_name,
            "ext": person.ext,
            "email": person.email,
            "status": group.logged_in.get(person.id, True),
        }
        for person in group.members
    ]


def _list_ddis(world: World, record: Record) -> Any:
    group, records = world.get_group(record["id"]), world.collections["ddis"].records
    return [records[ddi.e164] for ddi in world.account.ddis if ddi.target is group]


def _make_people_relation(membership_field: str) -> FindRelated:
    def related(world: World, record: Record) -> Any:
        users = world.collections["users"].records
        return [
            users[person.id]
            for person in world.account.people
            if record["id"] in (getattr(person, membership_field) or ())
        ]

    return related


_USER = {"user": _make_single_relation("user_id", "users")}
RELATIONS: dict[str, dict[str, FindRelated]] = {
    "ringgroups": {"users": _list_agents, "ddis": _list_ddis},
    "queues": {
        "users": _list_agents,
        "ddis": _list_ddis,
        "post_call_ivr": _make_single_relation("post_call_ivr_id", "ivrs"),
    },
    "pickupgroups": {"users": _make_people_relation("pickup_groups")},
    "usergroups": {"users": _make_people_relation("group_ids")},
    "cdrs": {
        **_USER,
        "monitors": _make_call_relation("monitors"),
        "voicemessages": _make_call_relation("voicemessages"),
    },
    "monitors": {**_USER, "cdrs": _make_call_relation("cdrs")},
    "voicemessages": {
        "user": _make_single_relation("extension_id", "users"),
        "cdrs": _make_call_relation("cdrs"),
    },
    "sms": _USER,
    "contacts": _USER,
    "vmannouncements": {"user": _make_single_relation("extension", "users")},
    "calls": {"monitors": _make_call_relation("monitors", own_field="id")},
    "mediasessions": {"user": _make_single_relation("user", "users")},
    "msdrs": {**_USER, "media_session": _make_single_relation("media_session_id", "mediasessions")},
    "chats": {
        "operator": _make_single_relation("operator_id", "users"),
        "website": _make_single_relation("website_id", "callmeback/websites"),
    },
    "users": {
        "pickup_group": _make_single_relation("pickup_group_id", "pickupgroups"),
        "vm_announcement": _make_single_relation("vm_announcement_id", "vmannouncements"),
    },
    "callmeback/settings": {"button": _make_single_relation("button_id", "callmeback/buttons")},
    "calltracking/ddis": {"campaign": _make_single_relation("campaign_id", "calltracking/campaigns")},
}


def expand_record(name: str, record: Record) -> Record:
    """Apply `include=` and `fields[…]` of the request to a record.

    `name`: collection of `record`.
    """
    relations = RELATIONS.get(name, {})
    relation_names = [
        relation_name
        for relation_name in request.args.get("include", "").split(",")
        if relation_name in relations
    ]
    field_names = request.args.get(f"fields[{name}]")
    if not relation_names and field_names is None:
        return record
    result = dict(record) if field_names is None else _pick_fields(record, field_names)
    for relation_name in relation_names:
        related = relations[relation_name](get_simulator_context().world, record)
        related_field_names = request.args.get(f"fields[{relation_name}]")
        if related_field_names and isinstance(related, list):
            related = [_pick_fields(entry, related_field_names) for entry in related]
        elif related_field_names and related is not None:
            related = _pick_fields(related, related_field_names)
        result[relation_name] = related
    return result


def _pick_fields(record: Record, names: str) -> Record:
    return {name: record[name] for name in names.split(",") if name in record}
