"""Account: records that staff change, through the platform, by forms made of the catalogue's body fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flask import abort, make_response, request
from werkzeug.wrappers import Response

from integration.access.people import Role
from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Field
from integration.context import this_house
from integration.core.errors import PlatformError
from integration.core.json_records import read_object
from integration.dashboard.account.sections import RESOURCE, Shelf, Sight
from integration.dashboard.site import form_responses as replies
from integration.dashboard.site import layout as shell
from integration.dashboard.site import write_through as through
from integration.dashboard.site.write_through import Said
from integration.facade.openapi import DOCUMENTED
from integration.mirror.page_queries import history
from integration.mirror.query import browse
from integration.mirror.records import dictionaries
from integration.platform_api.budget import PEOPLE

Kind = Literal["text", "prose", "number", "yes", "choice", "people", "agents"]
MEMBERS = "users"
"""The field of ring groups and queues that names their people."""
LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Editable:
    """Which fields of a collection have a form, in its order; whether records are made and deleted too; the
    least role that may."""

    fields: tuple[str, ...]
    whole: bool = False
    role: Role = "supervisor"


EDITABLE: Mapping[str, Editable] = {
    "sms/cannedresponses": Editable(("name", "text"), whole=True),
    "calllabels": Editable(("name", "color"), whole=True),
    "ringgroups": Editable(("name", MEMBERS, "strategy", "ring_time", "cli_prefix")),
    # Of queues only their people can be changed (observed.md §7).
    "queues": Editable((MEMBERS,)),
}


@dataclass(frozen=True, slots=True)
class Input:
    """One field of a form. `value` is what stands in it; `options` are (value, word) of a choice or of the
    people there are; `chosen` maps the people who are members to whether they are logged in."""

    name: str
    label: str
    kind: Kind
    value: str = ""
    about: str = ""
    options: tuple[tuple[str, str], ...] = ()
    chosen: Mapping[str, bool] | None = None


def allowed(sight: Sight, shelf: Shelf) -> Editable | None:
    """What this person may change of the collection."""
    rule = EDITABLE.get(shelf.collection)
    return rule if rule is not None and sight.person.may(rule.role) else None


def new_at(sight: Sight, shelf: Shelf) -> str | None:
    """Where the person may make a record of the collection."""
    if shelf.collection == "contacts":
        return "/contacts/new" if sight.person.may("agent") else None
    rule = allowed(sight, shelf)
    return f"{shelf.path}?edit=1" if rule is not None and rule.whole else None


def body_of(collection: str) -> dict[str, Field]:
    """The body fields of the operation that changes a record of it. Where the specification shows none
    (calllabels), the record's own."""
    for operation in DOCUMENTED:
        if operation.method == "PATCH" and operation.path == f"/{collection}/{{id}}" and operation.body:
            return {field.name: field for field in operation.body}
    return {field.name: field for field in RESOURCE[collection].fields}


def show(sight: Sight, shelf: Shelf, key: str | None, said: Said | None = None) -> Response:
    """The form of a record, or of a new one. What the platform refused stands in it again."""
    rule = _rule(sight, shelf, key)
    values, trouble = _present(shelf, key) if key is not None else ({}, None)
    inputs = _inputs(shelf, rule, values)
    entered = request.form if said is not None else None
    page = shell.page(
        "account",
        "account_edit.html",
        shelf=shelf,
        resource=RESOURCE[shelf.collection],
        key=key,
        called=words_of.title_of(values) if key is not None else "",
        inputs=inputs,
        entered=entered,
        whole=rule.whole,
        said=said,
        trouble=trouble,
        MEMBERS=MEMBERS,
    )
    return make_response(page, (said.status or 502) if said is not None else 200)


def change(sight: Sight, shelf: Shelf, key: str | None) -> Response:
    """What the form sent: only what differs goes to the platform, so that nobody's change meanwhile is
    undone."""
    rule = _rule(sight, shelf, key)
    collection = shelf.collection
    if request.form.get("drop"):
        if key is None or not rule.whole:
            abort(404)
        said = through.send("DELETE", f"/{collection}/{key}", collection=collection)
        return replies.done("Deleted.", shelf.path) if said.done else show(sight, shelf, key, said)
    present, _ = _present(shelf, key) if key is not None else ({}, None)
    inputs = _inputs(shelf, rule, present)
    mistakes: dict[str, str] = {}
    body = {one.name: value for one in inputs if (value := _entered(one, mistakes)) is not None}
    if mistakes:
        return show(sight, shelf, key, Said(400, "Not sent: " + " ".join(mistakes.values()), mistakes))
    if key is None:
        said = through.once(lambda: through.send("POST", f"/{collection}", body, collection=collection))
    elif body:
        said = through.send("PATCH", f"/{collection}/{key}", body, collection=collection)
    else:
        said = Said(200)
    if not said.done:
        return show(sight, shelf, key, said)
    made = said.record.values.get("id") if said.record is not None else None
    return replies.done("Saved.", f"{shelf.path}/{key or made}" if key or made else shelf.path)


def _rule(sight: Sight, shelf: Shelf, key: str | None) -> Editable:
    rule = allowed(sight, shelf)
    if rule is None:
        abort(403 if shelf.collection in EDITABLE else 404)
    if key is None and not rule.whole:
        abort(404)
    return rule


def _present(shelf: Shelf, key: str | None) -> tuple[dict[str, Any], str | None]:
    """(the record as the platform has it now, with its people and whether they are logged in; why it could
    not be asked: then as the mirror has it). 404 for one that is nowhere."""
    house, resource = this_house(), RESOURCE[shelf.collection]
    found = browse.key_of(resource, key or "")
    if found is None:
        abort(404)
    with house.mirror.read() as connection:
        row = browse.record(connection, resource, found)
    if row is None:
        abort(404)
    path = f"/{shelf.collection}/{found}"
    if any(relation.name == MEMBERS for relation in resource.relations):
        path += f"?include={MEMBERS}"
    try:
        return dict(house.platform.item(path, who=PEOPLE, tries=1).values), None
    except PlatformError as error:
        known = read_object(row["_item"] or row["_doc"]).values
        return dict(known), f"The platform could not be asked ({error}); this is what was read last."


def _inputs(shelf: Shelf, rule: Editable, values: Mapping[str, Any]) -> list[Input]:
    house, body = this_house(), body_of(shelf.collection)
    with house.mirror.read() as connection:
        codes = dictionaries.labels(connection, RESOURCE[shelf.collection])
        people = {str(row["id"]): row for row in history.people(connection)}
    inputs = []
    for name in rule.fields:
        field = body.get(name) or Field(name, "string")
        value = values.get(name)
        about = words_of.about(field)
        label = words_of.label(name)
        if name == MEMBERS:
            kind: Kind = "agents" if "status" in field.about else "people"
            members = _members(value)
            # Whoever is a member stands there, also one who is unknown here: else saving would take them out.
            options = {
                user: row["name"] for user, row in people.items() if user in members or not row["gone"]
            }
            options |= {user: "" for user in members if user not in options}
            named = tuple((user, word or user) for user, word in options.items())
            inputs.append(Input(name, "People", kind, "", "", named, members))
            continue
        words = codes.get(name) or words_of.codes(RESOURCE[shelf.collection].field(name) or field, name)
        kind = _kind(name, field, bool(words))
        text = "1" if value in (True, 1, "1", "true") and kind == "yes" else str(value or "")
        inputs.append(Input(name, label, kind, text, about, tuple(words.items())))
    return inputs


def _kind(name: str, field: Field, coded: bool) -> Kind:
    if coded:
        return "choice"
    if field.real_type == "boolean":
        return "yes"
    if field.real_type in ("integer", "number"):
        return "number"
    return "prose" if name in words_of.LONG else "text"


def _members(value: Any) -> dict[str, bool]:
    """User id → whether logged in, of ids or of objects {id, status}."""
    entries: Sequence[Any] = value if isinstance(value, list) else ()
    found = {}
    for entry in entries:
        for user in browse.references(entry):
            off = isinstance(entry, dict) and entry.get("status") in (False, 0, "0")
            found[user] = not off
    return found


def _entered(one: Input, mistakes: dict[str, str]) -> Any:
    """What was entered, as the body carries it; None for what stayed as it was."""
    if one.kind == "people":
        chosen = [int(user) for user in request.form.getlist(one.name) if user.isdecimal()]
        return chosen if {str(user) for user in chosen} != set(one.chosen or {}) else None
    if one.kind == "agents":
        states = {user: request.form.get(f"{one.name} {user}", "") for user, _ in one.options}
        members = {user: state == "in" for user, state in states.items() if state}
        if members == dict(one.chosen or {}):
            return None
        return [{"id": int(user), "status": status} for user, status in members.items()]
    text = request.form.get(one.name, "").strip()[:LONGEST]
    if text == one.value:
        return None
    if one.kind == "yes":
        return text == "1"
    if one.kind == "number":
        if not text.isdecimal():
            mistakes[one.name] = f"{one.label} is a whole number."
            return None
        return int(text)
    return text
