"""Routes that write ring groups and queues.

Writes change which phones ring for calls.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.simulator.context import get_simulator_context
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    make_item_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import directory
from integration.simulator.records.forms import make_form
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import apply_fields
from integration.simulator.routes.record_checks import (
    check_references,
    get_permitted_record,
    get_readable_collection,
)
from integration.simulator.routes.relations import expand_record

Record = dict[str, Any]

_FIRST_NUMBER = {"ringgroups": 611, "queues": 601}
_GROUP_KINDS = {"ringgroups": "ringgroup", "queues": "queue"}


def add_routes(app: Flask) -> None:
    for name in _GROUP_KINDS:
        app.add_url_rule(f"/{name}", f"POST {name}", _make_create_view(name), methods=["POST"])
        # The specification has no PATCH of queues, but a real client uses it (docs/platform.md#16-clients).
        app.add_url_rule(f"/{name}/<key>", f"PATCH {name}", _make_change_view(name), methods=["PATCH"])

    @app.delete("/ringgroups/<key>")
    def delete_ring_group(key: str) -> Response:
        world = get_simulator_context().world
        with world.lock:
            record = get_permitted_record("ringgroups", key, for_write=True)
            group = world.get_group(record["id"])
            world.account.groups.remove(group)
            world.collections["ringgroups"].remove(record)
            for ddi in world.account.ddis:
                if ddi.target is group:
                    ddi.target = world.account.admin
            world.refresh_ddi_records()
        return make_no_content_response()


def _make_create_view(name: str) -> Any:
    def create() -> Response:
        world = get_simulator_context().world
        with world.lock:
            get_readable_collection(name)
            fields = make_form(name).read(bodies.read_object())
            _check_group_fields(name, fields, None)
            used_numbers = {group.number for group in world.account.groups}
            number = next(n for n in range(_FIRST_NUMBER[name], 10**6) if n not in used_numbers)
            group = Group(world.new_id(name), _GROUP_KINDS[name], "", number, "A", 20, [])
            record = directory.group_record(group)
            _apply_fields(name, group, record, fields)
            world.account.groups.append(group)
            world.collections[name].add(record)
            return make_item_response(_make_item(name, record), 201, f"/{name}/{group.id}")

    return create


def _make_change_view(name: str) -> Any:
    def change(key: str) -> Response:
        world = get_simulator_context().world
        with world.lock:
            record = get_permitted_record(name, key, for_write=True)
            fields = make_form(name).read(bodies.read_object(), is_change=True)
            group = world.get_group(record["id"])
            _check_group_fields(name, fields, group)
            _apply_fields(name, group, record, fields)
            return make_item_response(_make_item(name, record), path=f"/{name}/{key}")

    return change


def _make_item(name: str, record: Record) -> Record:
    return expand_record(name, get_simulator_context().world.collections[name].item(record))


def _check_group_fields(name: str, fields: Record, group: Group | None) -> None:
    """Check that users, numbers and IVR exist and the extension is free.

    Raises ErrorResponse.
    """
    check_references(name, fields)
    if any(person is None for person, _ in _parse_members(fields)):
        raise make_validation_error("users")
    groups = get_simulator_context().world.account.groups
    if fields.get("number") in {other.number for other in groups if other is not group}:
        raise make_validation_error("number")


def _parse_members(fields: Record) -> list[tuple[Person | None, bool | None]]:
    """Return the users in `users` with their login states.

    None instead of a user is an unknown id; None instead of a state means that the body has no state.
    """
    members: list[tuple[Person | None, bool | None]] = []
    for entry in fields.get("users") or []:
        user_id = entry.get("id") if isinstance(entry, dict) else entry
        status = bool(entry["status"]) if isinstance(entry, dict) and "status" in entry else None
        members.append((get_simulator_context().world.account.find_person(user_id), status))
    return members


def _apply_fields(name: str, group: Group, record: Record, fields: Record) -> None:
    if "users" in fields:
        _set_members(name, group, fields)
    if "ddis" in fields:
        get_simulator_context().world.route_numbers_to(fields["ddis"] or [], group)
    # null does not remove the number of a group.
    apply_fields(record, {field: v for field, v in fields.items() if v is not None or field != "number"})
    group.name, group.number = record["name"], int(record["number"])
    group.strategy = "A" if record.get("strategy", record.get("ring_strategy")) in ("A", None) else "H"
    group.ring_time = max(1, int(record["ring_time"] or 20))
    group.cli_prefix = bool(record["cli_prefix"])
    group.final_dst_type = record["final_dst_type"] or "H"


def _set_members(name: str, group: Group, fields: Record) -> None:
    members = [(person, status) for person, status in _parse_members(fields) if person is not None]
    # The queue script, a real client, logs some agents in and out; the other agents stay members
    # (docs/platform.md#16-clients).
    changes_logins_only = (
        name == "queues"
        and bool(members)
        and all(person in group.members and status is not None for person, status in members)
    )
    if not changes_logins_only:
        group.members = [person for person, _ in members]
        group.logged_in = {person.id: group.logged_in.get(person.id, True) for person, _ in members}
    for person, status in members:
        if status is not None:
            group.logged_in[person.id] = status
