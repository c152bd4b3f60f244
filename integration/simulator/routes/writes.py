"""Routes of all catalogue writes without a separate route.

A write that does more than set fields of the record has a function below. Writes of ring groups, queues and
users change which phones ring for calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask, Response

from integration import catalogue
from integration.catalogue.shapes import Operation
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context, get_world
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_accepted_response,
    make_item_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import activity
from integration.simulator.records.account_state import GROUP_COLLECTIONS
from integration.simulator.records.forms import make_form
from integration.simulator.records.people import Group, Person
from integration.simulator.records.record_fields import Record, apply_fields, make_record
from integration.simulator.routes.reads import (
    check_references,
    expand_record,
    get_permitted_record,
    get_readable_collection,
)

_NUMBER_FIELDS = {"conferences": "confno", "ivrs": "number", "queues": "number", "ringgroups": "number"}
_DESTINATION_LETTERS = {"conferences": "C", "ivrs": "I", "queues": "Q", "ringgroups": "R"}
"""Values of target_type for numbers that are routed to records of these collections."""


def make_new_record(name: str) -> Record:
    """Create a record without an id, with values of optional fields.

    Groups, conference rooms and IVRs have the next free internal number.
    """
    world, user = get_world(), get_current_user()
    record, existing = make_record(name), world.collections[name].records.values()
    if "created_at" in record:
        record["created_at"] = clock.utc_text()
    if "user_id" in record and not user.is_root:
        record["user_id"] = user.id
    if name in _NUMBER_FIELDS:
        field = _NUMBER_FIELDS[name]
        record[field] = max((entry[field] or 0 for entry in existing), default=900) + 1
    if name == "conferences":
        record["confno_pstn"] = 72000000 + record["confno"]
    if name == "routingrules":
        record["pos"] = len(existing) + 1
    return record


def _write_contact(record: Record, fields: Record) -> None:
    apply_fields(record, fields)
    record["global"] = record["user_id"] is None
    is_new = record["id"] is None
    if is_new and not any(record[field] for field in ("first_name", "last_name", "company")):
        raise make_validation_error("first_name")


def _write_routing_rule(record: Record, fields: Record) -> None:
    if record["direction"] not in (None, fields.get("direction", record["direction"])):
        raise make_validation_error("direction")
    apply_fields(record, fields)
    record["final_dst"] = record["action"] != "block"


def _write_widget_setting(record: Record, fields: Record) -> None:
    # `culture` is text in bodies, but a number with undocumented meaning in records.
    apply_fields(record, {field: value for field, value in fields.items() if field != "culture"})
    if fields.get("ddi_e164") is not None:
        record["ddi"] = int(get_world().collections["ddis"].records[str(fields["ddi_e164"])]["id"])


def _write_report_schedule(record: Record, fields: Record) -> None:
    apply_fields(record, {"timezone": fields.get("tz") or record["timezone"], **fields})


def _write_group(record: Record, fields: Record) -> None:
    if fields.get("number") in [g.record["number"] for g in get_world().groups if g.record is not record]:
        raise make_validation_error("number")
    # null does not remove the number of a group.
    apply_fields(record, {field: v for field, v in fields.items() if v is not None or field != "number"})


def route_calls(name: str, record: Record, fields: Record) -> None:
    """Apply the `fields` of a request, which `record` has now, to the calls of the account."""
    world = get_world()
    if name in GROUP_COLLECTIONS:
        group = next((group for group in world.groups if group.record is record), None)
        if group is None:
            group = Group(name.removesuffix("s"), record)
            world.groups.append(group)
        if "users" in fields:
            _set_members(group, fields["users"] or [])
    if name in _DESTINATION_LETTERS and "ddis" in fields:
        world.route_numbers_to(fields["ddis"] or [], _DESTINATION_LETTERS[name], record["id"])


def _set_members(group: Group, entries: list[Any]) -> None:
    """Set the members of a group from user ids, or objects with user id and login state (`status`)."""
    objects = [entry if isinstance(entry, dict) else {"id": entry} for entry in entries]
    members = [_find_person(entry["id"]) for entry in objects]
    # The queue script, a real client, logs some agents in and out; the other agents stay members
    # (docs/platform.md#16-clients).
    changes_logins_only = (
        group.kind == "queue"
        and bool(members)
        and all(member in group.members for member in members)
        and all("status" in entry for entry in objects)
    )
    if not changes_logins_only:
        group.members = members
        group.logged_in = {member.id: group.logged_in.get(member.id, True) for member in members}
    for member, entry in zip(members, objects, strict=True):
        if "status" in entry:
            group.logged_in[member.id] = bool(entry["status"])


def _find_person(user_id: Any) -> Person:
    person = get_world().find_person(user_id)
    assert person is not None
    return person


def prepare_removal(name: str, record: Record) -> None:
    """Remove a record of `name` from the calls of the account, before it is deleted."""
    world = get_world()
    if name == "users":
        person = _find_person(record["id"])
        if person is world.admin:
            # The user who created the account can be deleted only with the account.
            raise ErrorResponse(403, "Access denied")
        world.remove_person(person)
        get_simulator_context().login_service.revoke_all(person)
    if name in GROUP_COLLECTIONS:
        world.groups.remove(world.get_group(record["id"]))
    if name in _DESTINATION_LETTERS:
        world.route_numbers_to([], _DESTINATION_LETTERS[name], record["id"])


def _write_voice_message(record: Record, fields: Record) -> None:
    apply_fields(record, fields)
    # Folder 1 holds new messages, 2 messages that were played. Folders are undocumented; this is invented.
    record["is_new"] = record["folder"] == 1


def _write_user(record: Record, fields: Record) -> None:
    apply_fields(record, fields)
    person = _find_person(record["id"])
    person.location_id = fields.get("location_id", person.location_id)


def _write_cdr(record: Record, fields: Record) -> None:
    apply_fields(record, fields)
    if fields.get("note"):
        activity.add_note(get_world(), record, get_current_user().id, fields["note"], clock.unix())


_WRITERS: dict[str, Callable[[Record, Record], None]] = {
    "contacts": _write_contact,
    "routingrules": _write_routing_rule,
    "callmeback/settings": _write_widget_setting,
    "reportschedules": _write_report_schedule,
    "ringgroups": _write_group,
    "queues": _write_group,
    "voicemessages": _write_voice_message,
    "users": _write_user,
    "cdrs": _write_cdr,
}
"""Functions that set the fields of a body, by collection, with further effects than apply_fields."""


MAX_IMMEDIATE_DELETES = 20
"""Maximum number of records deleted with 204; more return 202.

The specification lists both.
"""


def add_routes(app: Flask) -> None:
    """Add the routes that no other module has added before."""
    existing_routes = {
        (rule.rule, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()
    }
    for operation in catalogue.OPERATIONS + UNDOCUMENTED_OPERATIONS:
        name, _, parameter = operation.path[1:].partition("/{")
        path = f"/{name}/<key>" if parameter else f"/{name}"
        view = _VIEWS.get((operation.method, parameter))
        if view is not None and (path, operation.method) not in existing_routes:
            app.add_url_rule(path, operation.name, partial(view, name, operation), methods=[operation.method])


def _create(name: str, _: Operation) -> Response:
    world = get_world()
    with world.lock:
        collection = get_readable_collection(name)
        fields = _read_fields(name)
        record = make_new_record(name)
        _WRITERS.get(name, apply_fields)(record, fields)
        if not collection.can_write(record, get_current_user()):
            raise ErrorResponse(403, "Access denied")
        record["id"] = world.new_id(name)
        collection.add(record)
        route_calls(name, record, fields)
        return _make_record_response(name, record, 201)


def _change(name: str, _: Operation, key: str) -> Response:
    with get_world().lock:
        record = get_permitted_record(name, key, for_write=True)
        fields = _read_fields(name, is_change=True)
        _WRITERS.get(name, apply_fields)(record, fields)
        route_calls(name, record, fields)
        return _make_record_response(name, record)


def _make_record_response(name: str, record: Record, status: int = 200) -> Response:
    item = get_world().collections[name].item(record)
    return make_item_response(expand_record(name, item), status, f"/{name}/{record['id']}")


def _delete(name: str, operation: Operation, key: str) -> Response:
    world = get_world()
    keys = key.split(",") if operation.parameters == ("ids",) else [key]
    with world.lock:
        records = [get_permitted_record(name, one_key, for_write=True) for one_key in keys]
        for record in records:
            prepare_removal(name, record)
            world.collections[name].remove(record)
    return make_no_content_response() if len(keys) <= MAX_IMMEDIATE_DELETES else make_accepted_response()


def _delete_all(name: str, operation: Operation) -> Response:
    if not get_current_user().is_root:
        raise ErrorResponse(403, "Access denied")
    world = get_world()
    with world.lock:
        # /statements can be deleted but not read, so the simulator has no such collection.
        for deleted_name in (name, f"{name}/notes"):
            if deleted_name in world.collections:
                world.collections[deleted_name].records.clear()
    return make_no_content_response() if operation.success == (204,) else make_accepted_response()


def _change_several(name: str, _: Operation) -> Response:
    collection, form = get_readable_collection(name), make_form(name, is_bulk=True)
    with get_world().lock:
        entries = [form.read(entry) for entry in bodies.read_list()]
        keys = [str(entry[collection.key]) for entry in entries]
        records = [get_permitted_record(name, key, for_write=True) for key in keys]
        for entry in entries:
            check_references(name, entry)
        for record, entry in zip(records, entries, strict=True):
            fields = {field: value for field, value in entry.items() if field != "id"}
            _WRITERS.get(name, apply_fields)(record, fields)
        return make_list_response([expand_record(name, collection.item(record)) for record in records])


_VIEWS: dict[tuple[str, str], Callable[..., Response]] = {
    ("POST", ""): _create,
    ("PATCH", ""): _change_several,
    ("PATCH", "id}"): _change,
    ("DELETE", ""): _delete_all,
    ("DELETE", "id}"): _delete,
    ("DELETE", "ids}"): _delete,
}
"""Functions of routes, by method and path parameter.

The parameter is the part of the path after the collection and '/{'.
"""


def _read_fields(name: str, *, is_change: bool = False) -> Record:
    """Read and validate the body of a request. Raises ErrorResponse."""
    fields = make_form(name).read(bodies.read_object(), is_change=is_change)
    check_references(name, fields)
    user = get_current_user()
    if not user.is_root and fields.get("user_id") not in (None, user.id):
        raise make_validation_error("user_id")
    return fields
