"""Whole collections at once: bulk changes, and deleting everything."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response

from integration.core import clock
from integration.simulator.http import bodies
from integration.simulator.http.relations import shown
from integration.simulator.http.responses import (
    Answered,
    accepted,
    caller,
    invalid,
    listing,
    machine,
    no_content,
)
from integration.simulator.records import contacts, notes, tracking
from integration.simulator.routes.reads import open_collection, open_record

Record = dict[str, Any]

# The form of an entry, and the field that names its record.
BULK: dict[str, tuple[bodies.Form, str]] = {
    "contacts": (
        bodies.Form({"id": bodies.whole, "group_name": bodies.text, "labels": bodies.listed()}, ("id",)),
        "id",
    ),
    "voicemessages": (bodies.Form({"id": bodies.whole, "folder": bodies.whole}, ("id", "folder")), "id"),
    "cdrs": (notes.FORM, "id"),
    "calltracking/ddis": (tracking.DDI_FORM, "e164"),
    "users": (
        bodies.Form(
            {"id": bodies.whole, "location_id": bodies.whole, "groups": bodies.listed(bodies.whole)}, ("id",)
        ),
        "id",
    ),
}
WHOLE = {"sms": 202, "monitors": 202, "voicemessages": 202, "cdrs": 204, "chatmsgs": 204, "statements": 204}
"""Collections that can be deleted as a whole, and how that is answered."""


def add_routes(app: Flask) -> None:
    for name in BULK:
        app.add_url_rule(f"/{name}", f"PATCH many {name}", _changer(name), methods=["PATCH"])
    for name in WHOLE:
        app.add_url_rule(f"/{name}", f"DELETE all {name}", _emptier(name), methods=["DELETE"])


def _emptier(name: str) -> Any:
    def emptied() -> Response:
        if not caller().is_root:
            raise Answered(403, "Access denied")
        with machine().world.lock:
            # There is nothing to see of statements but that they can be deleted.
            if name in machine().world.collections:
                machine().world.collections[name].records.clear()
            if name == "cdrs":
                machine().world.collections["cdrs/notes"].records.clear()
        return no_content() if WHOLE[name] == 204 else accepted()

    return emptied


def _changer(name: str) -> Any:
    def changed() -> Response:
        form, key = BULK[name]
        world = machine().world
        with world.lock:
            entries = [form.read(entry) for entry in bodies.sent_list()]
            records = [_record(name, str(entry[key])) for entry in entries]
            for entry in entries:
                _check(name, entry)
            for record, entry in zip(records, entries, strict=True):
                _apply(name, record, {k: v for k, v in entry.items() if k != key})
            shown_records = [shown(name, world.collections[name].item(record)) for record in records]
        return listing(shown_records)

    return changed


def _record(name: str, key: str) -> Record:
    if name != "calltracking/ddis":
        return open_record(name, key, write=True)
    collection = open_collection(name)
    found = next((record for record in collection.records.values() if record["e164"] == key), None)
    if found is not None:
        return found
    line = machine().world.collections["ddis"].records.get(key)
    if line is None:
        raise Answered(404, "Resource not found")
    return {"id": None, "e164": key, "campaign_id": None, "name": line["name"]}


def _check(name: str, entry: Record) -> None:
    world = machine().world
    campaigns = world.collections["calltracking/campaigns"].records
    if name == "calltracking/ddis" and entry["campaign_id"] not in campaigns:
        raise invalid("campaign_id")
    if name == "users" and any(
        group not in world.collections["usergroups"].records for group in entry.get("groups") or []
    ):
        raise invalid("groups")


def _apply(name: str, record: Record, fields: Record) -> None:
    world = machine().world
    if name == "voicemessages":
        record["folder"] = fields["folder"]
        # 1 holds what is new, 2 what was heard: a choice, folders are not shown.
        record["is_new"] = fields["folder"] == 1
    elif name == "users":
        person = world.account.person(record["id"])
        assert person is not None
        if "location_id" in fields:
            person.location_id = fields["location_id"]
        if "groups" in fields:
            person.group_ids = list(fields["groups"] or [])
    elif name == "cdrs":
        note = fields.pop("note", None)
        record.update(fields)
        if note:
            notes.add(world, record, caller().id, note, clock.unix())
    elif name == "calltracking/ddis":
        record["campaign_id"] = fields["campaign_id"]
        if record["id"] is None:
            record["id"] = world.new_id(name)
            world.collections[name].add(record)
    else:
        record.update({k: v for k, v in fields.items() if k in contacts.CONTACT_DEFAULTS})
