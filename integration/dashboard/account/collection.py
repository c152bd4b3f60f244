"""Account page: list of the records of a collection."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from flask import make_response, redirect, request
from werkzeug.wrappers import Response

from integration.access.visibility import Visibility
from integration.catalogue import HISTORY, field_labels
from integration.catalogue.field_meanings import get_meaning, is_secret
from integration.catalogue.shapes import Resource
from integration.context import app_context
from integration.core.errors import QueryError
from integration.core.json_records import read_record
from integration.core.phone_numbers import get_calling_code
from integration.dashboard.account import edit, list_query
from integration.dashboard.account.editable import can_write
from integration.dashboard.account.list_query import ListView
from integration.dashboard.account.sections import Section
from integration.dashboard.account.values import ReferenceNames, ValueFormatter
from integration.dashboard.site import formats, layout
from integration.mirror.query import browse, text_search
from integration.mirror.query.filters import Condition, Search
from integration.mirror.query.query import Query
from integration.mirror.records import dictionaries

READ_SECONDS = 5.0
"""Seconds after which the queries of a page are cancelled."""
COUNT_SECONDS = 2.0
"""Seconds after which a count is cancelled: a search reads every record. The page then shows no total."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of the list.

    `sort_order` is 'ascending', 'descending' or ''; `url` sorts by the column.
    """

    name: str
    label: str
    url: str
    sort_order: str
    is_right_aligned: bool


def show_list(visibility: Visibility, section: Section) -> Response:
    context = app_context()
    resource = section.resource
    list_view = list_query.parse_view(
        section.path,
        resource,
        request.args,
        hidden_fields=visibility.hidden_fields(resource),
        include_missing=section.collection in HISTORY,
    )
    canonical_url = list_query.url_from_form(list_view, request.args, formats.display_zone())
    if canonical_url is not None and list_view.mistake is None:
        return redirect(canonical_url, 302)
    search_words = text_search.parse_search_groups(
        list_view.q, get_calling_code(context.settings.dashboard.country)
    )
    include_item_fields = visibility.can_see_item_fields(resource)
    rows: list[sqlite3.Row] = []
    mistake = list_view.mistake
    with context.mirror_db.read(seconds=READ_SECONDS) as connection:
        state = visibility.collection_state(connection, resource)
        sample = browse.sample_fields(connection, resource)
        record_query = visibility.restrict_query(connection, list_view.query)
        if search_words:
            record_query = replace(record_query, search=Search(search_words, include_item_fields))
        unreachable_since = layout.unreachable_since(connection)
        if mistake is None:
            try:
                rows = record_query.fetch_rows(connection)
            except QueryError as error:
                mistake = str(error)
        reference_names = ReferenceNames(connection, visibility.collections)
        records = [
            (browse.get_row_key(resource, row), row, _read_values(row, include_item_fields)) for row in rows
        ]
        reference_names.load(resource, [values for _, _, values in records])
        formatter = ValueFormatter(resource, reference_names, dictionaries.load_labels(connection, resource))
    date_field = resource.date if section.collection in HISTORY else None
    undocumented = (*sample.undocumented, *(sample.undocumented_in_items if include_item_fields else ()))
    fields = _list_fields(resource, undocumented, list_view.query.hidden_fields)
    column_names = _choose_columns(list_view, resource, sample, fields)
    total = None if mistake else _count_records(record_query, page_row_count=len(rows))
    html = layout.render_page(
        "account",
        "account_list.html",
        section=section,
        actions=edit.list_new_actions(visibility, section),
        can_select=bool(rows) and can_write(visibility, section.collection, "many"),
        resource=resource,
        view=list_view,
        mistake=mistake,
        state=state,
        away=unreachable_since,
        rows=[
            {
                "key": key,
                "name": field_labels.record_title(
                    field_labels.remove_hidden(values, list_view.query.hidden_fields)
                ),
                "at": formatter.format_value(date_field, values) if date_field else None,
                "cells": [(name, formatter.format_value(name, values)) for name in column_names],
                "gone": row["_missing_since"],
            }
            for key, row, values in records
        ],
        columns=[_build_column(list_view, resource, name) for name in column_names],
        by_key=_build_column(list_view, resource, resource.key) if resource.key else None,
        by_time=_build_column(list_view, resource, date_field) if date_field else None,
        fields=fields,
        chosen=column_names,
        filters=[
            (
                field_labels.label_field(row.property),
                *list_query.describe_condition(resource, row, formatter.label_code),
                list_view.url_without_condition(index),
            )
            for index, row in enumerate(list_view.query.conditions)
            if isinstance(row, Condition)
        ],
        OPERATORS=list_query.OPERATORS,
        total=total,
        number=list_view.query.page,
        number_of=lambda key: field_labels.fallback_title(resource, key),
        last=None if total is None else max(1, -(-total // list_query.PAGE_SIZE)),
        more=total is None and len(rows) == list_query.PAGE_SIZE,
        export=_export_url(list_view, resource, column_names),
        history=section.collection in HISTORY,
    )
    return make_response(html, 400 if mistake else 200)


def _read_values(row: sqlite3.Row, include_item_fields: bool) -> dict[str, Any]:
    """Return the fields of a record as filters see them: the list form wins over the record's own path."""
    values: dict[str, Any] = dict(read_record(row["_doc"]).values)
    if row["_item"] is not None and include_item_fields:
        for name, value in read_record(row["_item"]).values.items():
            if values.get(name) is None:
                values[name] = value
    return values


def _list_fields(
    resource: Resource, undocumented_fields: tuple[str, ...], hidden_fields: frozenset[str]
) -> list[tuple[str, str]]:
    """Return (name, label) of the fields for columns, filters and sort order."""
    return [
        (name, field_labels.label_field(name))
        for name in (*(field.name for field in resource.fields), *undocumented_fields)
        if name not in hidden_fields and not is_secret(name)
    ]


def _choose_columns(
    list_view: ListView, resource: Resource, sample: browse.FieldSample, fields: list[tuple[str, str]]
) -> list[str]:
    available = {name for name, _ in fields}
    requested = [name for name in list_view.args.get("columns", "").split(",") if name in available]
    return requested or [
        name
        for name in field_labels.choose_columns(resource, sample.undocumented, sample.filled_fields)
        if name in available
    ]


def _build_column(list_view: ListView, resource: Resource, name: str) -> Column:
    url, sort_order = list_view.sort_link(name)
    field = resource.field(name)
    is_right_aligned = get_meaning(name, field) == "duration" or (
        field is not None and field.actual_type == "number"
    )
    return Column(name, field_labels.label_field(name), url, sort_order, is_right_aligned)


def _count_records(record_query: Query, *, page_row_count: int) -> int | None:
    """Return the number of matches; None if counting exceeds COUNT_SECONDS."""
    if record_query.page == 1 and page_row_count < list_query.PAGE_SIZE:
        return page_row_count
    try:
        with app_context().mirror_db.read(seconds=COUNT_SECONDS) as connection:
            return record_query.count_matches(connection)
    except sqlite3.OperationalError as error:
        if str(error) != "interrupted":
            raise
        return None


def _export_url(list_view: ListView, resource: Resource, column_names: list[str]) -> str | None:
    """Return the URL of an export with this filter and order.

    Returns None for an invalid view. The columns are included if the user chose them or the collection has
    fewer than two documented fields.
    """
    if list_view.mistake:
        return None
    has_columns = "columns" in list_view.args or len(resource.fields) < 2
    parameters = {name: text for name, text in list_view.args.items() if name in ("filter", "sort", "dir")}
    if has_columns:
        columns = [name for name in (resource.key, resource.date, *column_names) if name]
        parameters["columns"] = ",".join(dict.fromkeys(columns))
    return f"/exports/{resource.table}.csv?{urlencode(parameters | formats.export_style())}"
