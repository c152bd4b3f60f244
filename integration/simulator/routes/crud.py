"""Making, changing and deleting plain records, as `plain.py` says."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.http import bodies
from integration.simulator.http.relations import expand_record
from integration.simulator.http.responses import (
    ErrorResponse,
    get_current_user,
    get_simulator_context,
    make_accepted_response,
    make_item_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import reports
from integration.simulator.records.people import UnplayedDestination
from integration.simulator.records.store import get_permitted_record, get_readable_collection
from integration.simulator.routes.plain_records import WRITABLE_COLLECTIONS

Record = dict[str, Any]

MAX_IMMEDIATE_DELETES = 20
"""Deleting more records than this at once is answered 202 (the specification lists 204 and 202)."""

# Numbers may point to records of these: with which letter.
_DESTINATION_LETTERS = {"conferences": "C", "ivrs": "I"}
_DELETED_BY_IDS = ("contacts", "monitors", "voicemessages", "chatmsgs")
_MONITOR_FORM = bodies.Form(
    {
        "transcript": bodies.text,
        "transcript_speakers": bodies.text,
        "summary": bodies.text,
        "sentiment": bodies.text,
        "cx_score": bodies.integer,
        "metadata": bodies.any_value,
    }
)


def add_routes(app: Flask) -> None:
    for name, writable in WRITABLE_COLLECTIONS.items():
        for method, path, make_view in (
            ("POST", f"/{name}", _make_create_view),
            ("PATCH", f"/{name}/<key>", _make_change_view),
            ("DELETE", f"/{name}/<keys>", _make_delete_view),
        ):
            if method in writable.methods:
                view = make_view(name)
                app.add_url_rule(path, f"{method} {name}", view, methods=[method])
    for name in _DELETED_BY_IDS[1:]:
        app.add_url_rule(f"/{name}/<keys>", f"DELETE {name}", _make_delete_view(name), methods=["DELETE"])

    @app.patch("/monitors/<key>")
    def change_monitor(key: str) -> Response:
        with get_simulator_context().world.lock:
            record = get_permitted_record("monitors", key, for_write=True)
            record.update(_MONITOR_FORM.read(bodies.read_object(), is_change=True))
            return make_item_response(expand_record("monitors", record))


def _make_record_fields(name: str, fields: Record) -> Record:
    """Raises ErrorResponse."""
    world = get_simulator_context().world
    ddi_numbers = fields.get("ddis") or []
    if any(number not in world.collections["ddis"].records for number in ddi_numbers):
        raise make_validation_error("ddis")
    owner = fields.get("user_id")
    if owner is not None and (
        world.account.find_person(owner) is None
        or not (get_current_user().is_root or owner == get_current_user().id)
    ):
        raise make_validation_error("user_id")
    try:
        return WRITABLE_COLLECTIONS[name].make_fields(world, fields)
    except ValueError as error:
        raise make_validation_error(str(error)) from error


def _make_create_view(name: str) -> Any:
    def create() -> Response:
        world, writable = get_simulator_context().world, WRITABLE_COLLECTIONS[name]
        with world.lock:
            collection = get_readable_collection(name)
            fields = writable.form.read(bodies.read_object())
            record = {"id": 0, **writable.make_defaults(world), **_make_record_fields(name, fields)}
            if name == "contacts" and not any(record[f] for f in ("first_name", "last_name", "company")):
                raise make_validation_error("first_name")
            if not collection.can_write(record, get_current_user()):
                raise ErrorResponse(403, "Access denied")
            record["id"] = world.new_id(name)
            _apply_side_effects(name, record, fields)
            collection.add(record)
            return make_item_response(expand_record(name, record), 201, f"/{name}/{record['id']}")

    return create


def _make_change_view(name: str) -> Any:
    def change(key: str) -> Response:
        world = get_simulator_context().world
        with world.lock:
            record = get_permitted_record(name, key, for_write=True)
            fields = WRITABLE_COLLECTIONS[name].form.read(bodies.read_object(), is_change=True)
            if name == "routingrules" and fields.get("direction", record["direction"]) != record["direction"]:
                raise make_validation_error("direction")
            record.update(_make_record_fields(name, fields))
            _apply_side_effects(name, record, fields)
            return make_item_response(expand_record(name, record), path=f"/{name}/{key}")

    return change


def _apply_side_effects(name: str, record: Record, fields: Record) -> None:
    """What else a write changes."""
    world = get_simulator_context().world
    if name in _DESTINATION_LETTERS and "ddis" in fields:
        world.route_numbers_to(
            fields["ddis"] or [], UnplayedDestination(_DESTINATION_LETTERS[name], record["id"])
        )
    if name == "reportschedules":
        record["next_run_at"] = reports.compute_next_run(record, clock.unix())
    if name == "contacts" and "user_id" in fields:
        record["global"] = record["user_id"] is None


def _make_delete_view(name: str) -> Any:
    def delete(keys: str) -> Response:
        world = get_simulator_context().world
        with world.lock:
            key_list = keys.split(",") if name in _DELETED_BY_IDS else [keys]
            records = [get_permitted_record(name, key, for_write=True) for key in key_list]
            for record in records:
                world.collections[name].remove(record)
            if name in _DESTINATION_LETTERS:
                for record in records:
                    world.route_numbers_to([], UnplayedDestination(_DESTINATION_LETTERS[name], record["id"]))
        return (
            make_no_content_response() if len(records) <= MAX_IMMEDIATE_DELETES else make_accepted_response()
        )

    return delete
