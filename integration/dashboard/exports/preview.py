"""Export: what a file will hold before it is fetched. Its rows counted, its columns chosen, its first lines
shown; and column sets kept.

/export/<name>                 a ready-made export, or a collection by its path
/export/<name>/sets            (POST) keep the columns shown under a name
/export/<name>/sets/<id>/remove  (POST) take a set away
"""

from __future__ import annotations

import csv as reader
import io
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from urllib.parse import urlencode

from flask import Blueprint, abort, make_response, redirect, request
from werkzeug.wrappers import Response

from integration.access import rights
from integration.access.rights import NotAllowed
from integration.catalogue import field_labels as words_of
from integration.catalogue.shapes import Resource
from integration.context import this_house
from integration.core.errors import QueryError
from integration.core.refused import Refused
from integration.dashboard.site import layout as shell
from integration.dashboard.site.guard import current_person, needs
from integration.exports import export_request as asking
from integration.exports.columns import FILES
from integration.exports.export_request import NoSuchExport
from integration.exports.formats import csv
from integration.exports.presets import PRESETS, Preset
from integration.exports.query import offered
from integration.exports.routes import asked_for
from integration.exports.selection import Selection
from integration.workspace import column_sets

blueprint = Blueprint("export", __name__)

LINES = 5
"""Records shown of a file."""
READ_SECONDS = 10.0
"""Counting and sorting a big selection reads all of it."""
KEPT = ("view", "filter", "from", "to", "sort", "dir", "tz")
"""What says which records, apart from the columns."""


@dataclass(frozen=True, slots=True)
class First:
    """The beginning of the file, as CSV has it."""

    rows: int
    columns: list[str]
    lines: list[list[str]]


@blueprint.get("/export/<path:name>")
@needs("export")
def show(name: str) -> Response:
    person, house = current_person(), this_house()
    chosen, preset, only = _reached(name)
    args = asked_for(request.args)
    selection, first, mistake = None, None, None
    columns: list[tuple[str, str, bool]] = []
    hidden = rights.hidden(person, chosen)
    try:
        selection = asking.selection(house, name, args, only, person)
        first = _first(selection)
        with house.mirror.read() as connection:
            known = [column for column in offered(connection, chosen, preset) if column not in hidden]
        columns = [
            (column, words_of.about(chosen.field(column)), column in first.columns)
            for column in dict.fromkeys([*(one for one in first.columns if one not in hidden), *known])
        ]
    except QueryError as error:
        mistake = str(error)
    filed = asking.filed_under(name)
    with house.house.read() as connection:
        sets = column_sets.known(connection, filed, person.id)
    html = shell.page(
        "calls" if chosen.table in ("_calls", "cdrs") else "account",
        "export.html",
        export=name,
        title=preset.title if preset else chosen.title,
        path=f"/exports/{filed}",
        kept=[(key, args[key]) for key in KEPT if args.get(key)],
        said=[] if selection is None else selection.described(),
        zone=(selection.zone or "UTC") if selection else "",
        columns=columns,
        chosen=bool(args.get("columns") or args.get("set")),
        first=first,
        mistake=mistake,
        sets=[(one, _page(name, args, set=one.name)) for one in sets],
        me=person.id,
        parquet=find_spec("pyarrow") is not None,
        raw=_url(f"exports/{filed}.jsonl", args) if preset is None and rights.sees_raw(person) else None,
        files=chosen.collection in FILES and person.may("recordings"),
        others=_others(name, args),
        usual=_page(name, args),
    )
    return make_response(html, 400 if mistake else 200)


@blueprint.post("/export/<path:name>/sets")
@needs("export")
def save(name: str) -> Response:
    """Keep the `columns` under `label`, for oneself or `shared`."""
    person, house = current_person(), this_house()
    _, _, only = _reached(name)
    args = asked_for(request.form)
    if not args["columns"]:
        abort(400, "A column set needs at least one column.")
    try:
        columns = _first(asking.selection(house, name, args, only, person)).columns
        column_sets.save(
            house.house,
            person.id,
            asking.filed_under(name),
            args.get("label", ""),
            columns,
            # A set shows no more than its reader may see; but only who works here names one for all.
            shared=args.get("shared") == "1" and person.may("agent"),
        )
    except (QueryError, Refused) as mistake:
        abort(400, str(mistake))
    return redirect(_page(name, args, set=column_sets.normal(args.get("label", ""))), 303)


@blueprint.post("/export/<path:name>/sets/<int:number>/remove")
@needs("export")
def remove(name: str, number: int) -> Response:
    """One's own; an administrator also what others share."""
    _reached(name)
    person = current_person()
    if not column_sets.remove(this_house().house, number, person.id, anybodys=person.may("admin")):
        abort(404)
    return redirect(_page(name, asked_for(request.form)), 303)


def _reached(name: str) -> tuple[Resource, Preset | None, int | None]:
    """What the name stands for, and whom the person is narrowed to. Aborts with 404, 403."""
    try:
        chosen, preset = asking.named(name)
        agents_see = this_house().settings.dashboard.agents_see
        return chosen, preset, rights.only_of(current_person(), chosen, "csv", agents_see)
    except NoSuchExport:
        abort(404)
    except NotAllowed as reason:
        abort(403, str(reason))


def _first(selection: Selection) -> First:
    read = partial(this_house().mirror.read, seconds=READ_SECONDS)
    with closing(csv.stream(read, selection, lines=LINES)) as stream:
        text = (next(stream) + next(stream, b"")).decode()
        _, *lines = reader.reader(io.StringIO(text, newline=""))
        return First(stream.rows, [column.name for column in stream.sheet.columns], lines)


def _page(name: str, args: Mapping[str, str], **more: str) -> str:
    return _url(f"export/{name}", args, **more)


def _url(path: str, args: Mapping[str, str], **more: str) -> str:
    """The same records, at another address."""
    kept = [(key, args[key]) for key in KEPT if args.get(key)] + list(more.items())
    return f"/{path}" + (f"?{urlencode(kept)}" if kept else "")


def _others(name: str, args: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """(title, URL, whether it is this one) of the ready-made exports; of the same calls where calls are
    shown."""
    person, agents_see = current_person(), this_house().settings.dashboard.agents_see
    found = []
    for preset in PRESETS.values():
        try:
            rights.only_of(person, preset.resource, "csv", agents_see)
        except NotAllowed:
            continue
        view = args.get("view") if preset.own_table or preset.resource.field("live_id") else None
        found.append((preset.short, _page(preset.name, {"view": view or ""}), preset.name == name))
    return found
