"""Reading: any collection and any record of it, as far as the caller may see them; files; `include`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import Flask, Response, request

from integration import clock
from integration.simulator import audio, filters
from integration.simulator.answers import Answered, caller, item, machine, reply
from integration.simulator.directory import me_record
from integration.simulator.people import Person
from integration.simulator.world import Collection

Record = dict[str, Any]


def add_routes(app: Flask) -> None:
    @app.get("/me")
    def me() -> Response:
        return item(me_record(caller()))

    @app.get("/ping")
    def ping() -> Response:
        return reply({"data": {"response": "Pong"}})

    @app.get("/<name>")
    def listed(name: str) -> Response:
        collection = open_collection(name)
        world, person = machine().world, caller()
        with world.lock:
            if name == "calls":
                live = world.live_records(clock.unix())
                records: list[Record] = [call for call in live if person.is_root or is_party(call, person)]
            else:
                records = list(collection.visible(person))
            page, total = collection_page(collection, records)
            return reply({"data": [include(name, record) for record in page], "total": total})

    @app.get("/<name>/<key>")
    def one(name: str, key: str) -> Response:
        if name in ("monitors", "voicemessages") and key.endswith(".mp3"):
            return _mp3(name, key[:-4])
        with machine().world.lock:
            record = open_record(name, key)
            collection = machine().world.collections[name]
            full = record if name == "calls" else collection.item(record)
            return item(include(name, full), path=f"/{name}/{key}")


def _mp3(name: str, key: str) -> Response:
    """The whole file; Range is ignored, as observed (observed.md §6)."""
    record = open_record(name, key)
    return Response(audio.mp3(record["duration"], record["id"]), content_type="audio/mpeg3")


def collection_page(collection: Collection, records: Iterable[Record]) -> tuple[list[Record], int]:
    """The page of `records` the query asks for. Raises Answered."""
    try:
        page = filters.select(
            records, collection.fields, request.args.to_dict(), unfilterable=collection.unfilterable
        )
    except filters.Refused as error:
        raise Answered(400, str(error)) from error
    return page.records, page.total


def open_collection(name: str) -> Collection:
    """The collection `name` if the caller may see any of it. Raises Answered."""
    collection = machine().world.collections.get(name)
    if collection is None:
        raise Answered(404, "Resource not found")
    if collection.mine is None and name != "calls" and not caller().is_root:
        raise Answered(403, "Access denied")
    return collection


def open_record(name: str, key: str) -> Record:
    """The record `key` of collection `name` if the caller may see it. Raises Answered (403, 404)."""
    collection = open_collection(name)
    record = _live_call(key) if name == "calls" else collection.find(key)
    if record is None:
        raise Answered(404, "Resource not found")
    person = caller()
    if not person.is_root:
        visible = is_party(record, person) if name == "calls" else bool(collection.mine(record, person))  # type: ignore[misc]
        if not visible:
            raise Answered(403, "Access denied")
    return record


def is_party(call: Record, person: Person) -> bool:
    return str(person.id) in (call["src_id"], call["dst_id"])


def _live_call(key: str) -> Record | None:
    live = machine().world.live_records(clock.unix())
    return next((record for record in live if str(record["id"]) == key), None)


def include(name: str, record: Record) -> Record:
    """`record` with the relations that `include=` names (observed.md §3)."""
    wanted = [word for word in request.args.get("include", "").split(",") if word]
    if not wanted or name not in ("queues", "ringgroups"):
        return record
    world = machine().world
    group = world.group(record["id"])
    more: Record = {}
    if "users" in wanted:
        people = [
            {
                "id": person.id,
                "first_name": person.first_name,
                "last_name": person.last_name,
                "ext": person.ext,
                "email": person.email,
                "status": group.logged_in.get(person.id, True),
            }
            for person in group.members
        ]
        more["users"] = [_narrow("users", entry) for entry in people]
    if "ddis" in wanted:
        lines = world.collections["ddis"].records
        more["ddis"] = [
            _narrow("ddis", lines[line.e164]) for line in world.account.lines if line.target is group
        ]
    return {**record, **more}


def _narrow(relation: str, record: Record) -> Record:
    names = request.args.get(f"fields[{relation}]")
    if not names:
        return record
    return {name: record[name] for name in names.split(",") if name in record}
