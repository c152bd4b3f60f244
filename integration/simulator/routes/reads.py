"""Reading: any collection and any record of it, as far as the caller may see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flask import Flask, Response, g, request

from integration.simulator.http import filters
from integration.simulator.http.relations import shown
from integration.simulator.http.responses import Answered, caller, item, listing, machine, reply
from integration.simulator.records import dictionaries
from integration.simulator.records.directory import me_record
from integration.simulator.records.store import Collection
from integration.simulator.world import World

Record = dict[str, Any]

# Reached below other paths only, or not listed by the platform.
_NOT_LISTED = frozenset({"cdrs/notes", "chatmsgs", "callmeback/buttons"})
# The specification gives these records no path of their own.
_NO_ITEM = frozenset(
    {"webcalls", "conversations", "chatmsgs", "cdrs/notes", "callmeback/websites", "callmeback/visitors"}
    | {"callmeback/cdrs", "calltracking/ddis", "calltracking/campaigns", "calltracking/cdrs"}
    | {"cdrs/calltracking", "ddis/calltracking"}
)


def add_routes(app: Flask, world: World) -> None:
    @app.get("/me")
    def me() -> Response:
        return item(me_record(caller()))

    @app.get("/ping")
    def ping() -> Response:
        # `message` as specified, `data` as observed (observed.md §2).
        return reply({"data": {"response": "Pong"}})

    for name in world.collections:
        if name not in _NOT_LISTED:
            app.get(f"/{name}", endpoint=f"list {name}")(_lister(name))
        if name not in _NO_ITEM:
            app.get(f"/{name}/<key>", endpoint=f"read {name}")(_reader(name))
    for name in dictionaries.COLLECTIONS:
        app.get(f"/{name}/dictionaries", endpoint=f"codes {name}")(_dictionary(name))


def _lister(name: str) -> Any:
    def listed() -> Response:
        collection = open_collection(name)
        with machine().world.lock:
            return page_of(name, collection.visible(caller()))

    return listed


def _reader(name: str) -> Any:
    def one(key: str) -> Response:
        with machine().world.lock:
            record = open_record(name, key)
            full = machine().world.collections[name].item(record)
            return item(shown(name, full), path=f"/{name}/{key}")

    return one


def _dictionary(name: str) -> Any:
    def codes() -> Response:
        records, total = select(dictionaries.codes(name), dictionaries.FIELDS)
        return listing(records, total)

    return codes


def page_of(name: str, records: Iterable[Record]) -> Response:
    """The page of `records`, all of collection `name`, that the query asks for. Raises Answered."""
    collection = machine().world.collections[name]
    found, total = select(records, collection.fields, collection.unfilterable)
    return listing([shown(name, record) for record in found], total)


def select(
    records: Iterable[Record], fields: Sequence[str], unfilterable: frozenset[str] = frozenset()
) -> tuple[list[Record], int]:
    """The page of `records` the query asks for, and how many match. Raises Answered."""
    asked = request.args.to_dict()
    if "shuffle" in g.faults:
        records = list(records)
        g.faults["shuffle"].rng.shuffle(records)
        asked.pop("sort", None)
    try:
        page = filters.select(records, fields, asked, unfilterable=unfilterable)
    except filters.Refused as error:
        raise Answered(400, str(error)) from error
    return page.records, page.total


def open_collection(name: str) -> Collection:
    """The collection `name` if the caller may see any of it. Raises Answered."""
    collection = machine().world.collections[name]
    if collection.mine is None and not caller().is_root:
        raise Answered(403, "Access denied")
    return collection


def open_record(name: str, key: str, *, write: bool = False) -> Record:
    """The record `key` of collection `name` if the caller may see (or `write`) it. Raises Answered."""
    collection = open_collection(name)
    record = collection.find(key)
    if record is None:
        raise Answered(404, "Resource not found")
    allowed = collection.may_write if write else collection.may_read
    if not allowed(record, caller()):
        raise Answered(403, "Access denied")
    return record
