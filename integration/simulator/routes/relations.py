"""Query parameters `include=` (embed related records) and `fields[…]` (select fields).

`users` and `ddis` of ring groups and queues are specified or observed (docs/platform.md#3-collections).
`users` of pickup groups and user groups is invented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import request

from integration.simulator.calls.world import World
from integration.simulator.context import get_world
from integration.simulator.records.people import Person
from integration.simulator.records.record_fields import copy_attributes

Record = dict[str, Any]


def _list_agents(world: World, record: Record) -> list[Record]:
    group = world.get_group(record["id"])
    return [
        copy_attributes(person, "id first_name last_name ext email")
        | {"status": group.logged_in.get(person.id, True)}
        for person in group.members
    ]


def _list_ddis(world: World, record: Record) -> list[Record]:
    group = world.get_group(record["id"])
    return world.list_ddis(group.target_type, group.id)


def _list_users(world: World, is_member: Callable[[Person], bool]) -> list[Record]:
    users = world.collections["users"].records
    return [users[person.id] for person in world.people if is_member(person)]


_RELATIONS: dict[tuple[str, str], Callable[[World, Record], list[Record]]] = {
    ("ringgroups", "users"): _list_agents,
    ("ringgroups", "ddis"): _list_ddis,
    ("queues", "users"): _list_agents,
    ("queues", "ddis"): _list_ddis,
    ("pickupgroups", "users"): lambda world, record: _list_users(
        world, lambda person: person.pickup_group_id == record["id"]
    ),
    ("usergroups", "users"): lambda world, record: _list_users(
        world, lambda person: record["id"] in person.group_ids
    ),
}
"""Functions that list related records, by collection and name of the relation."""


def expand_record(name: str, record: Record) -> Record:
    """Apply `include=` and `fields[…]` of the request to a record.

    `name`: collection of `record`.
    """
    result = _pick_fields(record, name)
    include = request.args.get("include")
    for relation_name in include.split(",") if include else ():
        list_related = _RELATIONS.get((name, relation_name))
        if list_related is not None:
            related = list_related(get_world(), record)
            result = {**result, relation_name: [_pick_fields(entry, relation_name) for entry in related]}
    return result


def _pick_fields(record: Record, name: str) -> Record:
    """Return the fields of a record of `name` that the request selects, by default all of them."""
    field_names = request.args.get(f"fields[{name}]")
    if field_names is None:
        return record
    return {field_name: record[field_name] for field_name in field_names.split(",") if field_name in record}
