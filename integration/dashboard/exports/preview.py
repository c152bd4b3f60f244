"""Export page: row count, choice of columns, first rows, column sets.

/export/<name>                   a ready-made export, or a collection by its path
/export/<name>/sets              (POST) save the columns shown as a column set
/export/<name>/sets/<id>/remove  (POST) remove a column set
"""

from __future__ import annotations

import csv as reader
import io
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

from flask import Blueprint, abort, make_response, redirect, request
from werkzeug.wrappers import Response

from integration.access.rights import has
from integration.catalogue import field_labels
from integration.catalogue.collection_titles import get_title
from integration.context import app_context
from integration.core.errors import DomainError, QueryError
from integration.dashboard.exports import export_filter
from integration.dashboard.site import formats as formats_of_site
from integration.dashboard.site import layout
from integration.dashboard.site.guard import current_person, requires
from integration.exports import export_request, formats
from integration.exports.formats import csv
from integration.exports.formats.format import SEPARATORS
from integration.exports.headings import is_code_or_id, use_words
from integration.exports.presets import PRESETS
from integration.exports.query import (
    build_export_query,
    list_available_columns,
    list_derived_columns,
    list_headings,
)
from integration.exports.routes import parse_args
from integration.exports.selection import Selection
from integration.mirror.page_queries.call_labels import OUTCOME_LABELS
from integration.mirror.page_queries.call_view import DIRECTIONS, WEEKDAYS
from integration.workspace import saved

blueprint = Blueprint("export", __name__)

PREVIEW_ROWS = 5
"""Records of the file shown on the page."""
READ_SECONDS = 10.0
"""Seconds for the preview. Counting and sorting a large selection reads all its records."""
SELECTION_PARAMETERS = ("view", "filter", "from", "to", "sort", "dir", "tz", "headings", "separator")
"""Parameters of an export except its columns."""
CONTROLS = ("tz", "headings", "separator")
"""Parameters that have a control in the form of the columns."""


@dataclass(frozen=True, slots=True)
class FilePreview:
    """Row count, columns, headings and first rows of the CSV file."""

    row_count: int
    columns: list[str]
    headings: list[str]
    sample_rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """A column of the form: name, heading in the file, and the description of its field or ''."""

    name: str
    heading: str
    about: str


@blueprint.get("/export/<path:name>")
@requires("export")
def show(name: str) -> Response:
    person, context = current_person(), app_context()
    resource, preset = export_filter.require_export(name)
    viewer = layout.get_visibility()
    if "apply" in request.args:
        form = export_filter.read_form(request.args)
        return redirect(_export_page_url(name, form, **_columns_of(form)), 303)
    args = export_filter.read_args(request.args, resource)
    selection, preview, error_text = None, None, None
    groups: list[list[ColumnChoice]] = [[], [], []]
    hidden_columns = viewer.hidden_fields(resource)
    try:
        selection = export_request.build_selection(context, name, args, viewer, person)
        with context.mirror_db.read() as connection:
            derived_names = list_derived_columns(connection, resource).keys()
            if not _columns_of(args):
                defaults = [column.name for column in build_export_query(connection, selection).columns]
                in_words = use_words(defaults, resource, derived_names)
                selection = replace(selection, columns=in_words or tuple(defaults))
        preview = _read_preview(selection)
        with context.mirror_db.read() as connection:
            offered_columns = list_available_columns(connection, resource, hidden_columns)
            all_columns = list(
                dict.fromkeys(
                    [*(item for item in preview.columns if item not in hidden_columns), *offered_columns]
                )
            )
            headings = dict(zip(all_columns, list_headings(connection, selection, all_columns), strict=True))
        # A file has its own headings: without the other columns they can be shorter.
        headings |= zip(preview.columns, preview.headings, strict=True)
        for column in all_columns:
            about = field_labels.describe(resource.field(column))
            is_code = is_code_or_id(column, resource, derived_names)
            group = 0 if column in preview.columns else 2 if is_code else 1
            groups[group].append(ColumnChoice(column, headings[column], about))
    except QueryError as error:
        error_text = str(error)
    export_name = export_request.canonical_name(name)
    with context.app_db.read() as connection:
        saved_sets = saved.all_of(connection, saved.COLUMN_SETS, export_name, person.id)
    html = layout.render_page(
        "exports",
        "export.html",
        export=name,
        title=preset.title if preset else get_title(resource),
        line=preset.line if preset else "",
        path=f"/exports/{export_name}",
        kept=[(key, args[key]) for key in SELECTION_PARAMETERS if args.get(key)],
        descriptions=[]
        if selection is None
        else [line for line in selection.describe() if line not in selection.describe_calls()],
        ranges=_list_ranges(name, args) if resource.date else [],
        days=export_filter.read_days(args),
        calls=export_filter.build_filter_form(args)
        if export_filter.accepts_calls(resource, preset)
        else None,
        without_filter=_export_page_url(name, {**args, "view": ""}),
        url_of=partial(_export_page_url, name),
        args=args,
        zones=list(dict.fromkeys([formats_of_site.display_zone().key, "UTC", args["tz"]])),
        groups=groups,
        chosen=bool(args.get("columns") or args.get("set")),
        first=preview,
        mistake=error_text,
        sets=[(item, _export_page_url(name, args, set=item.name)) for item in saved_sets],
        ready_sets=[
            (label, _export_page_url(name, args, set=label)) for label in export_request.list_ready_sets(name)
        ],
        me=person.id,
        formats=formats.list_available(resource, person),
        raw=_build_url(f"exports/{export_name}.jsonl", args)
        if preset is None and viewer.can_see_raw(resource)
        else None,
        others=_list_presets(name, args),
        usual=_export_page_url(name, args),
        controls=CONTROLS,
        separators=SEPARATORS,
        WAYS=DIRECTIONS,
        OUTCOMES=OUTCOME_LABELS,
        WEEKDAYS=WEEKDAYS,
    )
    return make_response(html, 400 if error_text else 200)


@blueprint.get("/export/<path:name>/sets")
@requires("export")
def show_after_refusal(name: str) -> Response:
    """Redirect to the export page if a user reloads a refused form."""
    return redirect(_export_page_url(name, parse_args(request.args)), 303)


@blueprint.post("/export/<path:name>/sets")
@requires("export")
def save(name: str) -> Response:
    """Save the `columns` as the column set `label`, private or `shared`."""
    person, context = current_person(), app_context()
    export_filter.require_export(name)
    viewer = layout.get_visibility()
    args = parse_args(request.form)
    if not args["columns"]:
        abort(400, "A column set needs at least one column.")
    try:
        columns = _read_preview(export_request.build_selection(context, name, args, viewer, person)).columns
        saved.save(
            context.app_db,
            saved.COLUMN_SETS,
            export_request.canonical_name(name),
            person.id,
            args.get("label", ""),
            ",".join(columns),
            # A shared set shows no user more than their visibility; still, sharing requires the role agent.
            shared=args.get("shared") == "1" and has(person, "agent"),
        )
    except (QueryError, DomainError) as error:
        abort(400, str(error))
    return redirect(_export_page_url(name, args, set=saved.normalize_name(args.get("label", ""))), 303)


@blueprint.post("/export/<path:name>/sets/<int:number>/remove")
@requires("export")
def remove(name: str, number: int) -> Response:
    """Remove a column set of the current user.

    Administrators can also remove shared sets of other users.
    """
    export_filter.require_export(name)
    person = current_person()
    if not saved.remove(
        app_context().app_db,
        saved.COLUMN_SETS,
        number,
        person.id,
        include_shared=has(person, "admin"),
    ):
        abort(404)
    return redirect(_export_page_url(name, parse_args(request.form)), 303)


def _read_preview(selection: Selection) -> FilePreview:
    read_mirror = partial(app_context().mirror_db.read, seconds=READ_SECONDS)
    with closing(csv.stream(read_mirror, selection, chunk_rows=PREVIEW_ROWS)) as stream:
        text = (next(stream) + next(stream, b"")).decode()
        _, *sample_rows = reader.reader(io.StringIO(text, newline=""))
        columns = stream.export_query.columns
        return FilePreview(
            stream.row_count,
            [column.name for column in columns],
            [column.heading for column in columns],
            sample_rows,
        )


def _export_page_url(name: str, args: Mapping[str, str], **changes: str) -> str:
    return _build_url(f"export/{name}", args, **changes)


def _build_url(path: str, args: Mapping[str, str], **extra: str) -> str:
    """Return a URL with `extra` and the selection parameters of `args`."""
    parameters = [(key, args[key]) for key in SELECTION_PARAMETERS if args.get(key)] + list(extra.items())
    return f"/{path}" + (f"?{urlencode(parameters)}" if parameters else "")


def _list_ranges(name: str, args: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """Return (label, URL, is current) of each range.

    The URLs keep columns and filter.
    """
    shown = {key: args[key] for key in ("from", "to") if args.get(key)}
    return [
        (
            label,
            _export_page_url(name, {**args, "from": "", "to": "", **limits}, **_columns_of(args)),
            limits == shown,
        )
        for label, limits in export_filter.list_ranges().items()
    ]


def _columns_of(args: Mapping[str, str]) -> dict[str, str]:
    return {key: args[key] for key in ("columns", "set") if args.get(key)}


def _list_presets(name: str, args: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """Return (title, URL, is current) of each ready-made export allowed.

    The URLs keep the days and the style. URLs of exports of calls keep the filter of calls.
    """
    viewer = layout.get_visibility()
    presets = []
    for preset in PRESETS.values():
        if not viewer.can_export(preset.resource):
            continue
        names = list(CONTROLS)
        if preset.resource.date is not None:
            names += ["from", "to"]
        if export_filter.accepts_calls(preset.resource, preset):
            names.append("view")
        kept = {key: args.get(key, "") for key in names}
        presets.append((preset.title, _export_page_url(preset.name, kept), preset.name == name))
    return presets
