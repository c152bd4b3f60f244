"""Account: one record, every field of it, and what it belongs to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import abort, make_response
from werkzeug.wrappers import Response

from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Resource
from integration.context import this_house
from integration.core.json_records import read_object
from integration.dashboard.account import edit as account_edit
from integration.dashboard.account.collection import READ_SECONDS
from integration.dashboard.account.related import related
from integration.dashboard.account.sections import RESOURCE, Shelf, Sight
from integration.dashboard.account.values import Names, Reader, Shown
from integration.dashboard.site import layout as shell
from integration.exports.selection import HISTORY
from integration.mirror.query import browse
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.mirror.records import dictionaries
from integration.mirror.records.masking import is_secret, masked


@dataclass(frozen=True, slots=True)
class Line:
    """One field of a record, with what the catalogue tells about it."""

    name: str
    label: str
    shown: Shown
    about: str


def show(sight: Sight, shelf: Shelf, text: str | None) -> Response:
    """The record whose key is `text`; None for that of a collection which is one record."""
    house = this_house()
    resource = RESOURCE[shelf.collection]
    items = sight.items(shelf)
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        row = _find(connection, sight, shelf, resource, text)
        if row is None:
            if text is not None:
                abort(404)
            return _nothing(connection, sight, shelf, resource)
        listed = words_of.without(read_object(row["_doc"]).values, sight.hidden(shelf) - _masked(resource))
        own = read_object(row["_item"]).values if row["_item"] and items else {}
        values = {**listed, **own}
        names = Names(connection, sight.opens)
        names.prepare(resource, [values])
        reader = Reader(resource, names, dictionaries.labels(connection, resource))
        sections = _sections(resource, values, reader)
        key = browse.key_in(resource, row)
        around = related(connection, sight, shelf, key, values)
    return make_response(
        shell.page(
            "account",
            "account_record.html",
            shelf=shelf,
            resource=resource,
            key=key,
            called=words_of.title_of(values),
            numbered=words_of.numbered(resource, key),
            at=listed.get(resource.date) if resource.date and shelf.collection in HISTORY else None,
            sections=sections,
            about=words_of.about(resource),
            call=_call_of(resource, values),
            related=around,
            raw=_raw(row, items) if sight.whole else [],
            row=row,
            has_item=row["_item"] is not None,
            history=shelf.collection in HISTORY,
            edit=_edit(sight, shelf, key) if not row["_missing_since"] else None,
        )
    )


def _edit(sight: Sight, shelf: Shelf, key: int | str) -> str | None:
    """Where the person may change it."""
    if shelf.collection == "contacts":
        return f"/contacts/{key}"
    return f"{shelf.path}/{key}?edit=1" if account_edit.allowed(sight, shelf) else None


def _find(
    connection: sqlite3.Connection, sight: Sight, shelf: Shelf, resource: Resource, text: str | None
) -> sqlite3.Row | None:
    if text is None:
        return browse.only_record(connection, resource)
    key = browse.key_of(resource, text)
    row = browse.record(connection, resource, key) if key is not None else None
    if row is None or sight.only is None or not shelf.personal:
        return row
    mine = Query(resource, (Condition(resource.key or "id", "eq", key),), missing=True)
    return row if sight.narrowed(connection, shelf, mine).total(connection) else None


def _nothing(connection: sqlite3.Connection, sight: Sight, shelf: Shelf, resource: Resource) -> Response:
    return make_response(
        shell.page(
            "account",
            "account_record.html",
            shelf=shelf,
            resource=resource,
            row=None,
            state=sight.standing(connection, shelf),
            away=shell.unreachable_since(connection),
        )
    )


def _masked(resource: Resource) -> frozenset[str]:
    """Secrets, which a record shows as set or not."""
    return frozenset(field.name for field in resource.fields if is_secret(field.name))


def _sections(resource: Resource, values: Mapping[str, Any], reader: Reader) -> list[tuple[str, list[Line]]]:
    """Headings with their fields: the catalogue's in its order, then what else the record has."""
    found = []
    for heading, prefix, names in words_of.groups(resource, words_of.ordered(resource, values)):
        lines = []
        for name in names:
            about = resource.field(name)
            lines.append(
                Line(
                    name,
                    words_of.label(name, within=prefix),
                    reader.show(name, values),
                    words_of.about(about),
                )
            )
        found.append((heading, lines))
    return found


def _call_of(resource: Resource, values: Mapping[str, Any]) -> str | None:
    """The page of the call that the record is part of."""
    number = values.get("id" if resource.collection == "calls" else "live_id")
    if isinstance(number, int | str) and str(number).isdecimal() and str(number) != "0":
        return f"/calls/{number}"
    return None


def _raw(row: sqlite3.Row, items: bool) -> list[tuple[str, str]]:
    """The record's texts as received, secrets as null, indented where that changes nothing else."""
    texts = [("As the collection lists it", row["_doc"])]
    if row["_item"] and items:
        texts.append(("As its own path answers", row["_item"]))
    return [
        (title, _indented(masked(text.encode("utf-8", "surrogatepass")).decode())) for title, text in texts
    ]


def _indented(text: str) -> str:
    try:
        indented = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
    return indented if json.dumps(json.loads(indented)) == json.dumps(json.loads(text)) else text
