"""Account: the list of a collection's records."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from urllib.parse import urlencode

from flask import make_response, redirect, request
from werkzeug.wrappers import Response

from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Resource
from integration.context import this_house
from integration.core.errors import QueryError
from integration.core.json_records import read_object
from integration.dashboard.account import edit as account_edit
from integration.dashboard.account import list_query as account_view
from integration.dashboard.account.list_query import View
from integration.dashboard.account.sections import RESOURCE, Shelf, Sight
from integration.dashboard.account.values import Names, Reader
from integration.dashboard.site import formats
from integration.dashboard.site import layout as shell
from integration.exports.call_filter import calling_code
from integration.exports.selection import HISTORY
from integration.mirror.query import browse
from integration.mirror.query import text_search as anywhere
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.mirror.records import dictionaries
from integration.mirror.records.masking import is_secret

READ_SECONDS = 5.0
COUNT_SECONDS = 2.0
"""Counting what a search finds reads every record; past this the page says only that there are more."""


@dataclass(frozen=True, slots=True)
class Column:
    """`sorted`: 'ascending', 'descending' or ''; `url` sorts by it."""

    name: str
    label: str
    url: str
    sorted: str
    right: bool


def show(sight: Sight, shelf: Shelf) -> Response:
    house = this_house()
    resource = RESOURCE[shelf.collection]
    view = account_view.read(
        shelf.path,
        resource,
        request.args,
        hidden=sight.hidden(shelf),
        missing=shelf.collection in HISTORY,
    )
    meant = account_view.completed(view, request.args, formats.zone())
    if meant is not None and view.mistake is None:
        return redirect(meant, 302)
    groups = anywhere.words(view.q, calling_code(house.settings.dashboard.country))
    items = sight.items(shelf)
    rows: list[sqlite3.Row] = []
    mistake = view.mistake
    with house.mirror.read(seconds=READ_SECONDS) as connection:
        state = sight.standing(connection, shelf)
        seen = browse.sample(connection, resource)
        question = sight.narrowed(connection, shelf, view.question)
        away = shell.unreachable_since(connection)
        if mistake is None:
            try:
                rows = browse.page(connection, question, groups, items=items)
            except QueryError as error:
                mistake = str(error)
        names = Names(connection, sight.opens)
        records = [(browse.key_in(resource, row), row, read_object(row["_doc"]).values) for row in rows]
        names.prepare(resource, [values for _, _, values in records])
        reader = Reader(resource, names, dictionaries.labels(connection, resource))
    dated = resource.date if shelf.collection in HISTORY else None
    fields = _fields(resource, seen.strange, view.question.hidden)
    chosen = _chosen(view, resource, seen, fields)
    total = None if mistake else _count(question, groups, items, full=len(rows))
    html = shell.page(
        "account",
        "account_list.html",
        shelf=shelf,
        add=account_edit.new_at(sight, shelf),
        resource=resource,
        view=view,
        mistake=mistake,
        state=state,
        away=away,
        rows=[
            {
                "key": key,
                "name": words_of.title_of(words_of.without(values, view.question.hidden)),
                "at": reader.show(dated, values) if dated else None,
                "cells": [(name, reader.show(name, values)) for name in chosen],
                "gone": row["_missing_since"],
            }
            for key, row, values in records
        ],
        columns=[_column(view, resource, name) for name in chosen],
        by_key=_column(view, resource, resource.key) if resource.key else None,
        by_time=_column(view, resource, dated) if dated else None,
        about=words_of.about(resource) if len(resource.fields) < 2 else "",
        fields=fields,
        chosen=chosen,
        filters=[
            (
                words_of.label(row.property),
                *account_view.spoken(resource, row, reader.word),
                view.without(place),
            )
            for place, row in enumerate(view.question.conditions)
            if isinstance(row, Condition)
        ],
        OPERATORS=account_view.OPERATORS,
        total=total,
        number=view.question.page,
        number_of=lambda key: words_of.numbered(resource, key),
        last=None if total is None else max(1, -(-total // account_view.PAGE)),
        more=total is None and len(rows) == account_view.PAGE,
        export=_export(view, resource, chosen),
        history=shelf.collection in HISTORY,
    )
    return make_response(html, 400 if mistake else 200)


def _fields(resource: Resource, strange: tuple[str, ...], hidden: frozenset[str]) -> list[tuple[str, str]]:
    """(name, label) of what a list can show, be filtered and sorted by."""
    listed = [field.name for field in resource.fields if not field.item_only]
    return [
        (name, words_of.label(name))
        for name in (*listed, *strange)
        if name not in hidden and not is_secret(name)
    ]


def _chosen(view: View, resource: Resource, seen: browse.Sample, fields: list[tuple[str, str]]) -> list[str]:
    known = {name for name, _ in fields}
    asked = [name for name in view.args.get("columns", "").split(",") if name in known]
    return asked or [name for name in words_of.columns(resource, seen.strange, seen.filled) if name in known]


def _column(view: View, resource: Resource, name: str) -> Column:
    url, way = view.sorted_by(name)
    field = resource.field(name)
    right = name in words_of.DURATIONS or (field is not None and field.real_type == "number")
    return Column(name, words_of.label(name), url, way, right)


def _count(question: Query, groups: anywhere.Words, items: bool, *, full: int) -> int | None:
    """All matches; None when counting them takes too long."""
    if question.page == 1 and full < account_view.PAGE:
        return full
    try:
        with this_house().mirror.read(seconds=COUNT_SECONDS) as connection:
            return browse.count(connection, question, groups, items=items)
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        return None


def _export(view: View, resource: Resource, chosen: list[str]) -> str | None:
    """The same filter, order and (where they were chosen, or nothing is documented) columns as a file."""
    if view.mistake:
        return None
    listed = "columns" in view.args or len(resource.fields) < 2
    columns = [name for name in (resource.key, resource.date, *chosen) if name]
    zone = this_house().settings.dashboard.timezone
    asked = view.export(",".join(dict.fromkeys(columns)) if listed else None, zone)
    return f"/exports/{resource.table}.csv" + (f"?{urlencode(asked)}" if asked else "")
