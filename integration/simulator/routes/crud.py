"""Making, changing and deleting plain records, as `plain.py` says."""

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
    item,
    machine,
    no_content,
)
from integration.simulator.records import reports
from integration.simulator.records.people import Place
from integration.simulator.routes.plain_records import PLAIN
from integration.simulator.routes.reads import open_collection, open_record

Record = dict[str, Any]

MANY = 20
"""Deleting more records than this at once is answered 202 (the specification lists 204 and 202)."""

# Numbers may point to records of these: with which letter.
_PLACES = {"conferences": "C", "ivrs": "I"}
_DELETED_BY_IDS = ("contacts", "monitors", "voicemessages", "chatmsgs")
_MONITOR_FORM = bodies.Form(
    {
        "transcript": bodies.text,
        "transcript_speakers": bodies.text,
        "summary": bodies.text,
        "sentiment": bodies.text,
        "cx_score": bodies.whole,
        "metadata": bodies.anything,
    }
)


def add_routes(app: Flask) -> None:
    for name, plain in PLAIN.items():
        for verb, path, make in (
            ("POST", f"/{name}", _maker),
            ("PATCH", f"/{name}/<key>", _changer),
            ("DELETE", f"/{name}/<keys>", _deleter),
        ):
            if verb in plain.verbs:
                view = make(name)
                app.add_url_rule(path, f"{verb} {name}", view, methods=[verb])
    for name in _DELETED_BY_IDS[1:]:
        app.add_url_rule(f"/{name}/<keys>", f"DELETE {name}", _deleter(name), methods=["DELETE"])

    @app.patch("/monitors/<key>")
    def change_monitor(key: str) -> Response:
        with machine().world.lock:
            record = open_record("monitors", key, write=True)
            record.update(_MONITOR_FORM.read(bodies.sent(), change=True))
            return item(shown("monitors", record))


def _kept(name: str, fields: Record) -> Record:
    """Raises Answered."""
    world = machine().world
    numbers = fields.get("ddis") or []
    if any(number not in world.collections["ddis"].records for number in numbers):
        raise invalid("ddis")
    owner = fields.get("user_id")
    if owner is not None and (
        world.account.person(owner) is None or not (caller().is_root or owner == caller().id)
    ):
        raise invalid("user_id")
    try:
        return PLAIN[name].keep(world, fields)
    except ValueError as error:
        raise invalid(str(error)) from error


def _maker(name: str) -> Any:
    def made() -> Response:
        world, plain = machine().world, PLAIN[name]
        with world.lock:
            collection = open_collection(name)
            fields = plain.form.read(bodies.sent())
            record = {"id": 0, **plain.start(world), **_kept(name, fields)}
            if name == "contacts" and not any(record[f] for f in ("first_name", "last_name", "company")):
                raise invalid("first_name")
            if not collection.may_write(record, caller()):
                raise Answered(403, "Access denied")
            record["id"] = world.new_id(name)
            _follow(name, record, fields)
            collection.add(record)
            return item(shown(name, record), 201, f"/{name}/{record['id']}")

    return made


def _changer(name: str) -> Any:
    def changed(key: str) -> Response:
        world = machine().world
        with world.lock:
            record = open_record(name, key, write=True)
            fields = PLAIN[name].form.read(bodies.sent(), change=True)
            if name == "routingrules" and fields.get("direction", record["direction"]) != record["direction"]:
                raise invalid("direction")
            record.update(_kept(name, fields))
            _follow(name, record, fields)
            return item(shown(name, record), path=f"/{name}/{key}")

    return changed


def _follow(name: str, record: Record, fields: Record) -> None:
    """What else a write changes."""
    world = machine().world
    if name in _PLACES and "ddis" in fields:
        world.retarget(fields["ddis"] or [], Place(_PLACES[name], record["id"]))
    if name == "reportschedules":
        record["next_run_at"] = reports.next_run(record, clock.unix())
    if name == "contacts" and "user_id" in fields:
        record["global"] = record["user_id"] is None


def _deleter(name: str) -> Any:
    def deleted(keys: str) -> Response:
        world = machine().world
        with world.lock:
            many = keys.split(",") if name in _DELETED_BY_IDS else [keys]
            found = [open_record(name, key, write=True) for key in many]
            for record in found:
                world.collections[name].remove(record)
            if name in _PLACES:
                for record in found:
                    world.retarget([], Place(_PLACES[name], record["id"]))
        return no_content() if len(found) <= MANY else accepted()

    return deleted
