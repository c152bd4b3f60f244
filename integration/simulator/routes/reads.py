"""Routes that read collections and records which the user may read.

`include=` embeds related records, `fields[…]` selects fields. `users` and `ddis` of ring groups and queues
are specified or observed (docs/platform.md#3-collections).
The specification's examples show other resources at most paths below one user, contact, CDR or live call;
here the paths return the records that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from flask import Blueprint, Flask, Response, g, request

from integration.catalogue import OPERATIONS
from integration.catalogue.undocumented_operations import UNDOCUMENTED_OPERATIONS
from integration.core import clock
from integration.simulator.calls.world import World
from integration.simulator.context import get_current_user, get_world
from integration.simulator.http import filters
from integration.simulator.http.responses import (
    ErrorResponse,
    make_item_response,
    make_json_response,
    make_list_response,
    make_no_content_response,
    make_validation_error,
)
from integration.simulator.media import canned
from integration.simulator.records.account_state import GROUP_COLLECTIONS, Collection
from integration.simulator.records.people import Person, me_record
from integration.simulator.records.record_fields import (
    CODE_FIELDS,
    COLLECTIONS,
    Record,
    copy_attributes,
    list_codes,
)

blueprint = Blueprint("reads", __name__)

_PATHS = frozenset(
    operation.path for operation in OPERATIONS + UNDOCUMENTED_OPERATIONS if operation.method == "GET"
)
_REFERENCES = {
    **dict.fromkeys(("ddis", "ddi_e164"), "ddis"),
    **dict.fromkeys(("user_id", "extension_id", "users"), "users"),
    "button_id": "callmeback/buttons",
    "call_me_back_setting_id": "callmeback/settings",
    "campaign_id": "calltracking/campaigns",
    "post_call_ivr_id": "ivrs",
    "users groups": "usergroups",
}
"""Referenced collections by body field, or by 'collection field'."""


def _has_number(contact: Record, cdr: Record) -> bool:
    numbers = {contact[f"{kind}{n}"] for kind in ("tel", "mobile") for n in ("", "_1", "_2")} - {None, ""}
    return cdr["src"] in numbers or cdr["dst"] in numbers


_SUBPATHS: dict[tuple[str, str, str], Callable[[Record, Record], object]] = {
    ("users", "contacts", "contacts"): lambda user, record: record["user_id"] in (None, user["id"]),
    ("users", "cdrs", "cdrs"): lambda user, record: record["user_id"] == user["id"],
    ("users", "chatmsgs", "chatmsgs"): lambda user, record: record["user_id"] == user["id"],
    ("users", "calls", "calls"): lambda user, call: str(user["id"]) in (call["src_id"], call["dst_id"]),
    ("contacts", "cdrs", "cdrs"): _has_number,
    ("cdrs", "notes", "cdrs/notes"): lambda cdr, note: note["cdr_id"] == cdr["id"],
}
"""Tests that a record belongs to a parent.

The keys are the collection of the parent, the last part of the path, and the collection of the records.
"""


def _list_agents(world: World, record: Record) -> list[Record]:
    group = world.get_group(record["id"])
    return [
        copy_attributes(person, "id first_name last_name ext email")
        | {"status": group.logged_in.get(person.id, True)}
        for person in group.members
    ]


def _list_ddis(world: World, record: Record) -> list[Record]:
    group = world.get_group(record["id"])
    return world.list_ddis(group.target_type, group.id)


_GROUP_RELATIONS = {"users": _list_agents, "ddis": _list_ddis}
"""Functions that list related records of ring groups and queues, by name of the relation."""


@blueprint.get("/me")
def me() -> Response:
    return make_item_response(me_record(get_current_user()))


@blueprint.get("/ping")
def ping() -> Response:
    # `message` as specified, `data` as observed (docs/platform.md#2-sign-in).
    return make_json_response({"message": "Pong", "data": {"response": "Pong"}})


def add_routes(app: Flask) -> None:
    app.register_blueprint(blueprint)
    for name in COLLECTIONS:
        if f"/{name}" in _PATHS:
            app.get(f"/{name}", endpoint=f"list {name}")(partial(_list_records, name))
        if not _PATHS.isdisjoint((f"/{name}/{{id}}", f"/{name}/{{e164}}")):
            app.get(f"/{name}/<key>", endpoint=f"read {name}")(partial(_read_record, name))
        if "codes" in COLLECTIONS[name]:
            app.get(f"/{name}/dictionaries", endpoint=f"codes {name}")(partial(_list_codes, name))
    for parent, segment, name in _SUBPATHS:
        view = partial(_list_below, parent, segment, name)
        app.get(f"/{parent}/<key>/{segment}", endpoint=f"{parent} {segment}")(view)


def _list_records(name: str) -> Response:
    collection = get_readable_collection(name)
    with get_world().lock:
        return make_page_response(name, collection.list_visible(get_current_user()))


def _read_record(name: str, key: str) -> Response:
    with get_world().lock:
        full_record = get_world().collections[name].item(get_permitted_record(name, key))
        return make_item_response(expand_record(name, full_record), path=f"/{name}/{key}")


def _list_codes(name: str) -> Response:
    return make_list_response(*select_page(list_codes(name), CODE_FIELDS))


def _list_below(parent: str, segment: str, name: str, key: str) -> Response:
    collection = get_world().collections[name]
    with get_world().lock:
        parent_record = get_permitted_record(parent, key)
        belongs_to_parent = partial(_SUBPATHS[parent, segment, name], parent_record)
        # Notes have no owner. Everybody who can read the CDR can read them.
        records = (
            collection.list_visible(get_current_user()) if collection.owners else collection.iterate_records()
        )
        return make_page_response(name, [record for record in records if belongs_to_parent(record)])


def _get_user(key: str) -> Person:
    """Return the user of a path.

    Raises ErrorResponse if the current user may not read it.
    """
    person = get_world().find_person(get_permitted_record("users", key)["id"])
    assert person is not None
    return person


@blueprint.get("/users/<key>/smsthreads/<first>/<second>")
@blueprint.get("/users/<key>/sms/threads/<first>/<second>", endpoint="sms_threads")
def list_sms_thread(key: str, first: str, second: str) -> Response:
    """List the SMS of a user between two numbers, oldest first."""
    ends = {first.removeprefix("+"), second.removeprefix("+")}
    with get_world().lock:
        person = _get_user(key)
        rows = get_world().collections["sms"].records.values()
        messages = [r for r in rows if r["user_id"] == person.id and {r["from"], r["to"]} == ends]
        messages.sort(key=lambda record: (record["created_at"], record["id"]))
        return make_page_response("sms", messages)


@blueprint.get("/users/<key>/audio")
def read_audio_settings(key: str) -> Response:
    """Return the user's audio settings: the announcement of the mailbox.

    Fields are invented.
    """
    person = _get_user(key)
    announcement_id = person.vm_announcement_id
    settings = {"user_id": person.id, "language": "en", "vm_announcement_id": announcement_id}
    settings["custom"] = announcement_id is not None
    return make_item_response(settings, path=f"/users/{person.id}/audio")


@blueprint.delete("/users/<key>/audio")
def reset_audio(key: str) -> Response:
    with get_world().lock:
        _get_user(key).vm_announcement_id = None
    return make_no_content_response()


@blueprint.get("/calls/<key>/trace")
def list_trace(key: str) -> Response:
    """List the SIP messages as JSON. Fields are invented.

    The response is JSON because only paths with a file extension return files.
    """
    call = get_permitted_record("calls", key)
    messages = canned.list_sip_messages(call["id"], clock.utc_text(call["start_time"]))
    return make_list_response(*select_page(messages, tuple(messages[0])))


@blueprint.get("/calls/<key>/monitors")
def list_monitors(key: str) -> Response:
    """List the recordings of a live or ended call.

    Raises ErrorResponse for an unknown call.
    """
    world = get_world()
    with world.lock:
        visible = world.collections["monitors"].list_visible(get_current_user())
        recordings = [record for record in visible if str(record["live_id"]) == key]
        cdrs = world.collections["cdrs"].records.values()
        if not recordings and not any(str(cdr["live_id"]) == key for cdr in cdrs):
            get_permitted_record("calls", key)
        return make_page_response("monitors", recordings)


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


def expand_record(name: str, record: Record) -> Record:
    """Apply `include=` and `fields[…]` of the request to a record of collection `name`."""
    result = _pick_fields(record, name)
    for relation_name in request.args.get("include", "").split(","):
        if name in GROUP_COLLECTIONS and relation_name in _GROUP_RELATIONS:
            related = _GROUP_RELATIONS[relation_name](get_world(), record)
            result = {**result, relation_name: [_pick_fields(entry, relation_name) for entry in related]}
    return result


def _pick_fields(record: Record, name: str) -> Record:
    """Return the fields of a record of `name` that the request selects, by default all of them."""
    field_names = request.args.get(f"fields[{name}]")
    if field_names is None:
        return record
    return {field_name: record[field_name] for field_name in field_names.split(",") if field_name in record}


def check_references(name: str, fields: Record) -> None:
    """Check that the records to which a body refers exist.

    `name`: collection of the body. Raises ErrorResponse.
    """
    for field_name, value in fields.items():
        target = _REFERENCES.get(f"{name} {field_name}") or _REFERENCES.get(field_name)
        if target is None or value is None:
            continue
        for entry in value if isinstance(value, list) else [value]:
            key = entry.get("id") if isinstance(entry, dict) else entry
            if get_world().collections[target].find(str(key)) is None:
                raise make_validation_error(field_name)


def get_readable_collection(name: str) -> Collection:
    """Return collection `name`.

    Raises ErrorResponse if the user cannot read any of its records.
    """
    collection = get_world().collections[name]
    if not collection.owners and not get_current_user().is_root:
        raise ErrorResponse(403, "Access denied")
    return collection


def get_permitted_record(name: str, key: str, *, for_write: bool = False) -> Record:
    """Return record `key` of collection `name`.

    Raises ErrorResponse if it does not exist or the user cannot read it (`for_write`: change it).
    """
    collection = get_readable_collection(name)
    record = collection.find(key)
    if record is None:
        raise ErrorResponse(404, "Resource not found")
    is_allowed = collection.can_write if for_write else collection.can_read
    if not is_allowed(record, get_current_user()):
        raise ErrorResponse(403, "Access denied")
    return record
