"""Routes of all catalogue writes without a separate route.

A write that does more than set fields of the record has a function in `effects.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response

from integration import catalogue
from integration.catalogue.shapes import Operation
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.simulator.context import get_current_user, get_world
from integration.simulator.http import bodies
from integration.simulator.http.responses import (
    ErrorResponse,
    make_accepted_response,
    make_item_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records.forms import make_form
from integration.simulator.records.record_fields import apply_fields
from integration.simulator.routes import effects
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


def add_routes(app: Flask) -> None:
    """Add the routes that no other module has added before."""
    existing_routes = {
        (rule.rule, method) for rule in app.url_map.iter_rules() for method in rule.methods or ()
    }
    for operation in catalogue.OPERATIONS + UNDOCUMENTED_OPERATIONS:
        name, _, parameter = operation.path[1:].partition("/{")
        path = f"/{name}/<key>" if parameter else f"/{name}"
        make_view = _VIEW_MAKERS.get((operation.method, parameter))
        if make_view is not None and (path, operation.method) not in existing_routes:
            view = make_view(name, operation)
            app.add_url_rule(path, operation.name, view, methods=[operation.method])


def _make_create_view(name: str, _: Operation) -> Any:
    def create() -> Response:
        world = get_world()
        with world.lock:
            collection = get_readable_collection(name)
            fields = _read_fields(name)
            record = effects.make_new_record(name)
            effects.WRITERS.get(name, apply_fields)(record, fields)
            if not collection.can_write(record, get_current_user()):
                raise ErrorResponse(403, "Access denied")
            record["id"] = world.new_id(name)
            collection.add(record)
            effects.route_calls(name, record, fields)
            return _make_record_response(name, record, 201)

    return create


def _make_change_view(name: str, _: Operation) -> Any:
    def change(key: str) -> Response:
        with get_world().lock:
            record = get_permitted_record(name, key, for_write=True)
            fields = _read_fields(name, is_change=True)
            effects.WRITERS.get(name, apply_fields)(record, fields)
            effects.route_calls(name, record, fields)
            return _make_record_response(name, record)

    return change


def _make_record_response(name: str, record: Record, status: int = 200) -> Response:
    item = get_world().collections[name].item(record)
    return make_item_response(expand_record(name, item), status, f"/{name}/{record['id']}")


def _make_delete_view(name: str, operation: Operation) -> Any:
    def delete(key: str) -> Response:
        world = get_world()
        keys = key.split(",") if operation.parameters == ("ids",) else [key]
        with world.lock:
            records = [get_permitted_record(name, one_key, for_write=True) for one_key in keys]
            for record in records:
                effects.prepare_removal(name, record)
                world.collections[name].remove(record)
        return make_no_content_response() if len(keys) <= MAX_IMMEDIATE_DELETES else make_accepted_response()

    return delete


def _make_delete_all_view(name: str, operation: Operation) -> Any:
    def delete_all() -> Response:
        if not get_current_user().is_root:
            raise ErrorResponse(403, "Access denied")
        world = get_world()
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
        with get_world().lock:
            entries = [form.read(entry) for entry in bodies.read_list()]
            records = [effects.find_bulk_record(name, entry) for entry in entries]
            for entry in entries:
                check_references(name, entry)
            for record, entry in zip(records, entries, strict=True):
                apply_fields(record, {field: value for field, value in entry.items() if field != "id"})
                if name in effects.BULK_EFFECTS:
                    effects.BULK_EFFECTS[name](record, entry)
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
