"""Ring groups and queues: writing them changes who is rung when calls come in."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.simulator.http import bodies
from integration.simulator.http.bodies import (
    any_value,
    boolean,
    integer,
    list_of,
    non_empty_text,
    one_of,
    phone_digits,
    text,
)
from integration.simulator.http.relations import expand_record
from integration.simulator.http.responses import (
    get_simulator_context,
    make_item_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import directory
from integration.simulator.records.people import Group, Person
from integration.simulator.records.settings import DESTINATIONS
from integration.simulator.records.store import get_permitted_record, get_readable_collection

Record = dict[str, Any]

_FIRST_NUMBER = {"ringgroups": 611, "queues": 601}
_GROUP_KINDS = {"ringgroups": "ringgroup", "queues": "queue"}
# Memory hunt (M) is known from Follow Me alone; the simulator hunts.
_STRATEGIES = one_of("A", "H", "M")

_RING_GROUP = bodies.Form(
    {
        "name": non_empty_text,
        "users": list_of(integer),
        "ddis": list_of(phone_digits),
        "strategy": _STRATEGIES,
        "final_dst_type": one_of(*DESTINATIONS),
        "final_dst_id": integer,
        "ring_time": integer,
        "cli_prefix": boolean,
        "moh_id": integer,
        "number": integer,
    },
    ("name",),
)
_QUEUE = bodies.Form(
    {
        "name": non_empty_text,
        "users": list_of(),
        "ddis": list_of(phone_digits),
        "ring_strategy": _STRATEGIES,
        "final_dst_type": one_of(*DESTINATIONS),
        "language": text,
        "monitor": text,
        "email_missed": text,
        "groups": list_of(),
        "agent_sounds": any_value,
        "caller_sounds": any_value,
        **dict.fromkeys(
            bodies.split_names(
                "moh_id ivr_id number max_wait_time max_callers ring_time retry wrap_up_time "
                "wrap_up_panel_timeout ann_freq final_dst_id post_call_ivr_id"
            ),
            integer,
        ),
        **dict.fromkeys(
            bodies.split_names(
                "cli_prefix wait_time_prefix join_empty wrap_up_panel skip_busy pos_ann hold_ann "
                "hash_to_exit liaf"
            ),
            boolean,
        ),
    },
    ("name",),
)
_FORMS = {"ringgroups": _RING_GROUP, "queues": _QUEUE}
# Names that a body and its record don't share.
_RECORD_FIELD_NAMES = {"moh_id": "moh", "ivr_id": "ivr"}


def add_routes(app: Flask) -> None:
    for name in _GROUP_KINDS:
        app.add_url_rule(f"/{name}", f"POST {name}", _make_create_view(name), methods=["POST"])
        # Of queues the specification shows no change; a real client makes one (observed.md §10.4).
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
            fields = _FORMS[name].read(bodies.read_object())
            _check_references(fields, None)
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
            fields = _FORMS[name].read(bodies.read_object(), is_change=True)
            group = world.get_group(record["id"])
            _check_references(fields, group)
            _apply_fields(name, group, record, fields)
            return make_item_response(_make_item(name, record), path=f"/{name}/{key}")

    return change


def _make_item(name: str, record: Record) -> Record:
    return expand_record(name, get_simulator_context().world.collections[name].item(record))


def _check_references(fields: Record, group: Group | None) -> None:
    """Whether users, numbers and extension exist and are free. Raises ErrorResponse."""
    account = get_simulator_context().world.account
    if any(person is None for person, _ in _parse_members(fields)):
        raise make_validation_error("users")
    account_numbers = {ddi.e164 for ddi in account.ddis}
    if any(number not in account_numbers for number in fields.get("ddis") or []):
        raise make_validation_error("ddis")
    used_numbers = {other.number for other in account.groups if other is not group}
    if fields.get("number") in used_numbers:
        raise make_validation_error("number")
    ivr = fields.get("post_call_ivr_id")
    if ivr is not None and ivr not in get_simulator_context().world.collections["ivrs"].records:
        raise make_validation_error("post_call_ivr_id")


def _parse_members(fields: Record) -> list[tuple[Person | None, bool | None]]:
    """Who `users` names, and whether they are logged in (None: not said)."""
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
    for field, value in fields.items():
        record_field = field if field in record else _RECORD_FIELD_NAMES.get(field, field)
        # Every group keeps a number.
        if record_field in record and (value is not None or field != "number"):
            record[record_field] = value
    group.name, group.number = record["name"], int(record["number"])
    group.strategy = "A" if record.get("strategy", record.get("ring_strategy")) in ("A", None) else "H"
    group.ring_time = max(1, int(record["ring_time"] or 20))
    group.cli_prefix = bool(record["cli_prefix"])
    group.final_dst_type = record["final_dst_type"] or "H"


def _set_members(name: str, group: Group, fields: Record) -> None:
    members = [(person, status) for person, status in _parse_members(fields) if person is not None]
    # The queue script logs some agents in and out; that leaves the others members (observed.md §10.4).
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
