"""Whole collections at once: bulk changes, and deleting everything."""

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
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.records import contacts, notes, tracking
from integration.simulator.records.store import get_permitted_record, get_readable_collection

Record = dict[str, Any]

# The form of an entry, and the field that names its record.
BULK_CHANGES: dict[str, tuple[bodies.Form, str]] = {
    "contacts": (
        bodies.Form({"id": bodies.integer, "group_name": bodies.text, "labels": bodies.list_of()}, ("id",)),
        "id",
    ),
    "voicemessages": (bodies.Form({"id": bodies.integer, "folder": bodies.integer}, ("id", "folder")), "id"),
    "cdrs": (notes.FORM, "id"),
    "calltracking/ddis": (tracking.DDI_FORM, "e164"),
    "users": (
        bodies.Form(
            {"id": bodies.integer, "location_id": bodies.integer, "groups": bodies.list_of(bodies.integer)},
            ("id",),
        ),
        "id",
    ),
}
DELETABLE_COLLECTIONS = {
    "sms": 202,
    "monitors": 202,
    "voicemessages": 202,
    "cdrs": 204,
    "chatmsgs": 204,
    "statements": 204,
}
"""Collections that can be deleted as a whole, and how that is answered."""


def add_routes(app: Flask) -> None:
    for name in BULK_CHANGES:
        app.add_url_rule(f"/{name}", f"PATCH many {name}", _make_change_view(name), methods=["PATCH"])
    for name in DELETABLE_COLLECTIONS:
        app.add_url_rule(f"/{name}", f"DELETE all {name}", _make_delete_all_view(name), methods=["DELETE"])


def _make_delete_all_view(name: str) -> Any:
    def delete_all() -> Response:
        if not get_current_user().is_root:
            raise ErrorResponse(403, "Access denied")
        with get_simulator_context().world.lock:
            # There is nothing to see of statements but that they can be deleted.
            if name in get_simulator_context().world.collections:
                get_simulator_context().world.collections[name].records.clear()
            if name == "cdrs":
                get_simulator_context().world.collections["cdrs/notes"].records.clear()
        return make_no_content_response() if DELETABLE_COLLECTIONS[name] == 204 else make_accepted_response()

    return delete_all


def _make_change_view(name: str) -> Any:
    def change_records() -> Response:
        form, key = BULK_CHANGES[name]
        world = get_simulator_context().world
        with world.lock:
            entries = [form.read(entry) for entry in bodies.read_list()]
            records = [_find_record(name, str(entry[key])) for entry in entries]
            for entry in entries:
                _check_references(name, entry)
            for record, entry in zip(records, entries, strict=True):
                _apply_change(name, record, {k: v for k, v in entry.items() if k != key})
            shown_records = [expand_record(name, world.collections[name].item(record)) for record in records]
        return make_list_response(shown_records)

    return change_records


def _find_record(name: str, key: str) -> Record:
    if name != "calltracking/ddis":
        return get_permitted_record(name, key, for_write=True)
    collection = get_readable_collection(name)
    tracked_ddi = next((record for record in collection.records.values() if record["e164"] == key), None)
    if tracked_ddi is not None:
        return tracked_ddi
    ddi = get_simulator_context().world.collections["ddis"].records.get(key)
    if ddi is None:
        raise ErrorResponse(404, "Resource not found")
    return {"id": None, "e164": key, "campaign_id": None, "name": ddi["name"]}


def _check_references(name: str, entry: Record) -> None:
    world = get_simulator_context().world
    campaigns = world.collections["calltracking/campaigns"].records
    if name == "calltracking/ddis" and entry["campaign_id"] not in campaigns:
        raise make_validation_error("campaign_id")
    if name == "users" and any(
        group not in world.collections["usergroups"].records for group in entry.get("groups") or []
    ):
        raise make_validation_error("groups")


def _apply_change(name: str, record: Record, fields: Record) -> None:
    world = get_simulator_context().world
    if name == "voicemessages":
        record["folder"] = fields["folder"]
        # 1 holds what is new, 2 what was heard: a choice, folders are not shown.
        record["is_new"] = fields["folder"] == 1
    elif name == "users":
        person = world.account.find_person(record["id"])
        assert person is not None
        if "location_id" in fields:
            person.location_id = fields["location_id"]
        if "groups" in fields:
            person.group_ids = list(fields["groups"] or [])
    elif name == "cdrs":
        note = fields.pop("note", None)
        record.update(fields)
        if note:
            notes.add_note(world, record, get_current_user().id, note, clock.unix())
    elif name == "calltracking/ddis":
        record["campaign_id"] = fields["campaign_id"]
        if record["id"] is None:
            record["id"] = world.new_id(name)
            world.collections[name].add(record)
    else:
        record.update({k: v for k, v in fields.items() if k in contacts.CONTACT_DEFAULTS})
