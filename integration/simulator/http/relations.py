"""`include=` and `fields[…]`: related records inside a record, and only some of the fields of either.

`users` and `ddis` of ring groups and queues are the specification's and observed (observed.md §3); the other
words are this simulator's, one for each relation that a record's fields show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flask import request

from integration.simulator.http.responses import machine

if TYPE_CHECKING:
    from integration.simulator.world import World

Record = dict[str, Any]
# Makes what stands under the word: a record, a list of them, or None.
Related = Callable[["World", Record], Any]


def _one(field: str, name: str) -> Related:
    def related(world: World, record: Record) -> Any:
        key = record.get(field)
        return None if key is None else world.collections[name].find(str(key))

    return related


def _by_call(name: str, field: str = "live_id", own: str = "live_id") -> Related:
    def related(world: World, record: Record) -> Any:
        return [row for row in world.collections[name].rows() if row[field] == record.get(own)]

    return related


def _agents(world: World, record: Record) -> Any:
    group = world.group(record["id"])
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


def _lines(world: World, record: Record) -> Any:
    group, records = world.group(record["id"]), world.collections["ddis"].records
    return [records[line.e164] for line in world.account.lines if line.target is group]


def _people(belongs: str) -> Related:
    def related(world: World, record: Record) -> Any:
        users = world.collections["users"].records
        return [
            users[person.id]
            for person in world.account.people
            if record["id"] in (getattr(person, belongs) or ())
        ]

    return related


_USER = {"user": _one("user_id", "users")}
RELATIONS: dict[str, dict[str, Related]] = {
    "ringgroups": {"users": _agents, "ddis": _lines},
    "queues": {"users": _agents, "ddis": _lines, "post_call_ivr": _one("post_call_ivr_id", "ivrs")},
    "pickupgroups": {"users": _people("pickup_groups")},
    "usergroups": {"users": _people("group_ids")},
    "cdrs": {**_USER, "monitors": _by_call("monitors"), "voicemessages": _by_call("voicemessages")},
    "monitors": {**_USER, "cdrs": _by_call("cdrs")},
    "voicemessages": {"user": _one("extension_id", "users"), "cdrs": _by_call("cdrs")},
    "sms": _USER,
    "contacts": _USER,
    "vmannouncements": {"user": _one("extension", "users")},
    "calls": {"monitors": _by_call("monitors", own="id")},
    "mediasessions": {"user": _one("user", "users")},
    "msdrs": {**_USER, "media_session": _one("media_session_id", "mediasessions")},
    "chats": {"operator": _one("operator_id", "users"), "website": _one("website_id", "callmeback/websites")},
    "users": {
        "pickup_group": _one("pickup_group_id", "pickupgroups"),
        "vm_announcement": _one("vm_announcement_id", "vmannouncements"),
    },
    "callmeback/settings": {"button": _one("button_id", "callmeback/buttons")},
    "calltracking/ddis": {"campaign": _one("campaign_id", "calltracking/campaigns")},
}


def shown(name: str, record: Record) -> Record:
    """`record` of `name` with the relations that `include=` names, narrowed as `fields[…]` says."""
    relations = RELATIONS.get(name, {})
    wanted = [word for word in request.args.get("include", "").split(",") if word in relations]
    narrow = request.args.get(f"fields[{name}]")
    if not wanted and narrow is None:
        return record
    answer = dict(record) if narrow is None else _narrowed(record, narrow)
    for word in wanted:
        found = relations[word](machine().world, record)
        names = request.args.get(f"fields[{word}]")
        if names and isinstance(found, list):
            found = [_narrowed(entry, names) for entry in found]
        elif names and found is not None:
            found = _narrowed(found, names)
        answer[word] = found
    return answer


def _narrowed(record: Record, names: str) -> Record:
    return {name: record[name] for name in names.split(",") if name in record}
