"""Routes that read collections and records which the user may read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flask import Flask, Response, g, request

from integration.catalogue import OPERATIONS
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.simulator.context import get_current_user, get_world
from integration.simulator.http import filters
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
)
from integration.simulator.records.directory import me_record
from integration.simulator.records.seeds import CODE_FIELDS, COLLECTIONS, list_codes
from integration.simulator.routes.record_checks import get_permitted_record, get_readable_collection
from integration.simulator.routes.relations import expand_record

Record = dict[str, Any]

_PATHS = frozenset(
    operation.path for operation in OPERATIONS + UNDOCUMENTED_OPERATIONS if operation.method == "GET"
)


def add_routes(app: Flask, collections: Iterable[str]) -> None:
    @app.get("/me")
    def me() -> Response:
        return make_item_response(me_record(get_current_user()))

    @app.get("/ping")
    def ping() -> Response:
        # `message` as specified, `data` as observed (docs/platform.md#2-sign-in).
        return make_json_response({"message": "Pong", "data": {"response": "Pong"}})

    for name in collections:
        if f"/{name}" in _PATHS:
            app.get(f"/{name}", endpoint=f"list {name}")(_make_list_view(name))
        if not _PATHS.isdisjoint((f"/{name}/{{id}}", f"/{name}/{{e164}}")):
            app.get(f"/{name}/<key>", endpoint=f"read {name}")(_make_item_view(name))
    for name in (name for name, seeds in COLLECTIONS.items() if "codes" in seeds):
        app.get(f"/{name}/dictionaries", endpoint=f"codes {name}")(_make_dictionary_view(name))


def _make_list_view(name: str) -> Any:
    def list_records() -> Response:
        collection = get_readable_collection(name)
        with get_world().lock:
            return make_page_response(name, collection.list_visible(get_current_user()))

    return list_records


def _make_item_view(name: str) -> Any:
    def read_record(key: str) -> Response:
        with get_world().lock:
            record = get_permitted_record(name, key)
            full_record = get_world().collections[name].item(record)
            return make_item_response(expand_record(name, full_record), path=f"/{name}/{key}")

    return read_record


def _make_dictionary_view(name: str) -> Any:
    def list_dictionary() -> Response:
        return make_list_response(*select_page(list_codes(name), CODE_FIELDS))

    return list_dictionary


def make_page_response(name: str, records: Iterable[Record]) -> Response:
    """Create the response with the page of `records` for the request.

    `records` belong to collection `name`. Raises ErrorResponse for an invalid query.
    """
    collection = get_world().collections[name]
    page_records, total = select_page(records, collection.fields, collection.unfilterable)
    return make_list_response([expand_record(name, record) for record in page_records], total)


def select_page(
    records: Iterable[Record], fields: Sequence[str], unfilterable: frozenset[str] = frozenset()
) -> tuple[list[Record], int]:
    """Return the page of `records` for the request, and the total.

    Raises ErrorResponse for an invalid query.
    """
    arguments = request.args.to_dict()
    if "shuffle" in g.faults:
        records = list(records)
        g.faults["shuffle"].rng.shuffle(records)
        arguments.pop("sort", None)
    try:
        return filters.select(records, fields, arguments, unfilterable=unfilterable)
    except filters.QueryRefused as error:
        raise ErrorResponse(400, str(error)) from error
