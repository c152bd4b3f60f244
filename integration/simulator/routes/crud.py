"""Routes of all catalogue writes without a separate route.

A collection needs code here only if a write does more than set fields of the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response

from integration import catalogue
from integration.catalogue.shapes import Operation
from integration.core import clock
from integration.simulator.context import get_current_user, get_simulator_context
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_accepted_response,
    make_item_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import notes, reports
from integration.simulator.records.forms import make_form
from integration.simulator.records.people import UnplayedDestination
from integration.simulator.records.record_fields import apply_fields, make_record
from integration.simulator.routes.record_checks import (
    check_references,
    get_permitted_record,
    get_readable_collection,
)
from integration.simulator.routes.relations import expand_record

Record = dict[str, Any]

MAX_IMMEDIATE_DELETES = 20
"""Maximum number of records deleted with 204; more return 202.

The specification lists both.
"""

# Values of target_type for numbers that are routed to records of these collections.
_DESTINATION_LETTERS = {"conferences": "C", "ivrs": "I"}
_TRACKED_DDIS = "calltracking/ddis"


def add_routes(app: Flask) -> None:
    """Add the routes that no other module has added before."""
    existing_routes = {
        (rule.rule, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()
    }
    for operation in catalogue.OPERATIONS:
        name, _, parameter = operation.path[1:].partition("/{")
        path = f"/{name}/<key>" if parameter else f"/{name}"
        make_view = _VIEW_MAKERS.get((operation.method, parameter))
        if make_view is not None and (path, operation.method) not in existing_routes:
            view = make_view(name, operation)
            app.add_url_rule(path, operation.name, view, methods=[operation.method])


def _make_create_view(name: str, _: Operation) -> Any:
    def create() -> Response:
        world = get_simulator_context().world
        with world.lock:
            collection = get_readable_collection(name)
            fields = _read_fields(name)
            record = _make_new_record(name)
            _WRITERS.get(name, apply_fields)(record, fields)
            if not collection.can_write(record, get_current_user()):
                raise ErrorResponse(403, "Access denied")
            record["id"] = world.new_id(name)
            _route_numbers(name, record, fields)
            collection.add(record)
            return make_item_response(expand_record(name, record), 201, f"/{name}/{record['id']}")

    return create


def _make_change_view(name: str, _: Operation) -> Any:
    def change(key: str) -> Response:
        with get_simulator_context().world.lock:
            record = get_permitted_record(name, key, for_write=True)
            fields = _read_fields(name, is_change=True)
            _WRITERS.get(name, apply_fields)(record, fields)
            _route_numbers(name, record, fields)
            return make_item_response(expand_record(name, record), path=f"/{name}/{key}")

    return change


def _make_delete_view(name: str, operation: Operation) -> Any:
    def delete(key: str) -> Response:
        world = get_simulator_context().world
        keys = key.split(",") if operation.parameters == ("ids",) else [key]
        with world.lock:
            records = [get_permitted_record(name, one_key, for_write=True) for one_key in keys]
            for record in records:
                world.collections[name].remove(record)
                _route_numbers(name, record, {"ddis": []})
        return make_no_content_response() if len(keys) <= MAX_IMMEDIATE_DELETES else make_accepted_response()

    return delete


def _make_delete_all_view(name: str, operation: Operation) -> Any:
    def delete_all() -> Response:
        if not get_current_user().is_root:
            raise ErrorResponse(403, "Access denied")
        world = get_simulator_context().world
        with world.lock:
            # /statements can be deleted but not read, so the simulator has no such collection.
            for deleted_name in (name, f"{name}/notes"):
                if deleted_name in world.collections:
                    world.collections[deleted_name].records.clear()
        return make_no_content_response() if operation.success == (204,) else make_accepted_response()

    return delete_all


def _make_bulk_change_view(name: str, _: Operation) -> Any:
    def change_records() -> Response:
        collection, form = get_readable_collection(name), make_form(name, is_bulk=True)
        with get_simulator_context().world.lock:
            entries = [form.read(entry) for entry in bodies.read_list()]
            records = [_find_bulk_record(name, entry) for entry in entries]
            for entry in entries:
                check_references(name, entry)
            for record, entry in zip(records, entries, strict=True):
                apply_fields(record, {field: value for field, value in entry.items() if field != "id"})
                if name in _BULK_EFFECTS:
                    _BULK_EFFECTS[name](record, entry)
            return make_list_response([expand_record(name, collection.item(record)) for record in records])

    return change_records


_VIEW_MAKERS: dict[tuple[str, str], Callable[[str, Operation], Any]] = {
    ("POST", ""): _make_create_view,
    ("PATCH", ""): _make_bulk_change_view,
    ("PATCH", "id}"): _make_change_view,
    ("DELETE", ""): _make_delete_all_view,
    ("DELETE", "id}"): _make_delete_view,
    ("DELETE", "ids}"): _make_delete_view,
}
"""Functions that create views, by method and path parameter.

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


def _make_new_record(name: str) -> Record:
    """Create a record without an id, with values of optional fields."""
    world, user = get_simulator_context().world, get_current_user()
    record = make_record(name)
    if "created_at" in record:
        record["created_at"] = clock.utc_text()
    if "user_id" in record and not user.is_root:
        record["user_id"] = user.id
    if name in _DESTINATION_LETTERS:
        # The next free internal number of a conference room or IVR.
        field = "confno" if name == "conferences" else "number"
        used_numbers = [entry[field] or 0 for entry in world.collections[name].records.values()]
        record[field] = max(used_numbers, default=900) + 1
    if name == "conferences":
        record["confno_pstn"] = 72000000 + record["confno"]
    if name == "routingrules":
        record["pos"] = len(world.collections[name].records) + 1
    return record


def _route_numbers(name: str, record: Record, fields: Record) -> None:
    """Route the numbers in a body, if any, to `record`."""
    if name in _DESTINATION_LETTERS and "ddis" in fields:
        destination = UnplayedDestination(_DESTINATION_LETTERS[name], record["id"])
        get_simulator_context().world.route_numbers_to(fields["ddis"] or [], destination)


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
        ddi = get_simulator_context().world.collections["ddis"].records[str(fields["ddi_e164"])]
        record["ddi"] = int(ddi["id"])


def _write_report_schedule(record: Record, fields: Record) -> None:
    apply_fields(record, {"timezone": fields.get("tz") or record["timezone"], **fields})
    record["next_run_at"] = reports.compute_next_run(record, clock.unix())


_WRITERS: dict[str, Callable[[Record, Record], None]] = {
    "contacts": _write_contact,
    "routingrules": _write_routing_rule,
    "callmeback/settings": _write_widget_setting,
    "reportschedules": _write_report_schedule,
}
"""Functions of writes with further effects than setting fields, by collection."""


def _find_bulk_record(name: str, entry: Record) -> Record:
    if name != _TRACKED_DDIS:
        return get_permitted_record(name, str(entry["id"]), for_write=True)
    collections, number = get_simulator_context().world.collections, entry["e164"]
    for tracked_ddi in collections[name].records.values():
        if tracked_ddi["e164"] == number:
            return tracked_ddi
    ddi = collections["ddis"].records.get(number)
    if ddi is None:
        raise ErrorResponse(404, "Resource not found")
    return make_record(name, e164=number, name=ddi["name"])


def _mark_voice_message(record: Record, _: Record) -> None:
    # Folder 1 holds new messages, 2 messages that were played. Folders are undocumented; this is invented.
    record["is_new"] = record["folder"] == 1


def _change_person(record: Record, entry: Record) -> None:
    person = get_simulator_context().world.account.find_person(record["id"])
    assert person is not None
    person.location_id = entry.get("location_id", person.location_id)
    person.group_ids = list(entry.get("groups", person.group_ids) or [])


def _add_cdr_note(record: Record, entry: Record) -> None:
    if entry.get("note"):
        world = get_simulator_context().world
        notes.add_note(world, record, get_current_user().id, entry["note"], clock.unix())


def _add_tracked_ddi(record: Record, _: Record) -> None:
    world = get_simulator_context().world
    if record["id"] is None:
        record["id"] = world.new_id(_TRACKED_DDIS)
        world.collections[_TRACKED_DDIS].add(record)


_BULK_EFFECTS: dict[str, Callable[[Record, Record], None]] = {
    "voicemessages": _mark_voice_message,
    "users": _change_person,
    "cdrs": _add_cdr_note,
    _TRACKED_DDIS: _add_tracked_ddi,
}
"""Further effects of bulk changes beside setting fields, by collection."""
