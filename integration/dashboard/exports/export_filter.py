"""Period and filter of calls on the export page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from flask import abort
from werkzeug.datastructures import MultiDict

from integration.access.visibility import NotAllowed
from integration.catalogue.shapes import Resource
from integration.context import app_context
from integration.core.calendar_periods import CALENDAR_RANGES, RANGES, find_range_days
from integration.dashboard.site import formats, layout
from integration.exports import export_request
from integration.exports.export_request import UnknownExport
from integration.exports.presets import Preset
from integration.exports.routes import parse_args
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries import history
from integration.mirror.page_queries.call_view import (
    PARAMETERS,
    CallView,
    describe_filters,
    parse_day,
    parse_view,
)
from integration.workspace import call_labels

DAY_PARAMETERS = ("range", "from", "to", "since", "clock")
_DAY = timedelta(days=1)


def require_export(name: str) -> tuple[Resource, Preset | None]:
    """Return the export of this name.

    Aborts with 404 if the name is unknown, 403 if the export is not allowed.
    """
    try:
        resource, preset = export_request.find_export(name)
        layout.get_visibility().check_export(resource)
    except UnknownExport:
        abort(404)
    except NotAllowed as reason:
        abort(403, str(reason))
    return resource, preset


def accepts_calls(resource: Resource, preset: Preset | None) -> bool:
    """Return whether the export accepts a filter of calls."""
    return preset is not None and (resource is CALLS or resource.field("live_id") is not None)


def read_args(query: MultiDict[str, str], resource: Resource) -> dict[str, str]:
    """Return the export parameters of the page.

    Days are in `from` and `to`, other filters of calls in `view`.

    The style of pages is the default.
    """
    args = {**formats.export_style(), **{key: text for key, text in parse_args(query).items() if text}}
    if resource.date is None or args.get("view") is None:
        return args
    view = dict(parse_qsl(export_request.freeze_days(app_context().settings, args)["view"]))
    if view.get("since") or view.get("clock"):
        return args
    days = (parse_day(view.get("from")), parse_day(view.get("to")))
    return {**_set_view(args, view), **make_limits(*days), **_pick(args, "from", "to")}


def read_form(query: MultiDict[str, str]) -> dict[str, str]:
    """Return the export parameters of the filter form.

    Its fields have the names of the page Calls.
    """
    fields = {name: text.strip() for name, text in parse_args(query).items() if text.strip()}
    args = _set_view(
        _pick(fields, "filter", "sort", "dir", "tz", "headings", "separator", "columns", "set"), fields
    )
    return {**args, **make_limits(parse_day(fields.get("first_day")), parse_day(fields.get("last_day")))}


def make_limits(first: date | None, last: date | None) -> dict[str, str]:
    """Return `from` and `to` (exclusive) of the days `first` to `last`."""
    limits = (("from", first), ("to", last and last + _DAY))
    return {name: day.isoformat() for name, day in limits if day is not None}


def list_ranges() -> dict[str, dict[str, str]]:
    """Return the parameters of each range by its label, all times last."""
    today = formats.today()
    names = (*CALENDAR_RANGES, "all")
    return {RANGES[name]: make_limits(*(find_range_days(name, today) or (None, None))) for name in names}


def read_days(args: Mapping[str, str]) -> tuple[str, str]:
    """Return the first and last day for the form, or ''."""
    first, end = parse_day(args.get("from")), parse_day(args.get("to"))
    return str(first or ""), str(end - _DAY) if end else ""


def build_filter_form(args: Mapping[str, str]) -> dict[str, Any]:
    """Return values of the filter of calls for the template."""
    context = app_context()
    view = parse_view(
        dict(parse_qsl(args.get("view") or "range=all")),
        context.settings,
    )
    with context.mirror_db.read() as mirror, context.app_db.read() as app_db:
        users = history.list_users(mirror)
        numbers = history.list_account_numbers(mirror)
        labels = call_labels.list_used(mirror, app_db)
    return {
        "view": view,
        "people": users,
        "numbers": numbers,
        "labels": labels,
        "filters": [
            (description, _set_view(args, view.args, without=name))
            for name, description in describe_filters(view, users, formats.national)
        ],
        "kept_filters": _list_fields_without_control(view),
    }


def _list_fields_without_control(view: CallView) -> list[tuple[str, str]]:
    """Return filters without a control in the form, such as a search."""
    names = ("q", "group", "country", "charged", "waited", "reason", "reached", "rang", "open")
    return [(name, view.args[name]) for name in names if name in view.args]


def _set_view(args: Mapping[str, str], view: Mapping[str, str], without: str = "") -> dict[str, str]:
    """Return `args` with the filters of `view`, except its days."""
    filters = _pick(view, *(name for name in PARAMETERS if name not in (*DAY_PARAMETERS, without)))
    others = {name: text for name, text in args.items() if name != "view"}
    return {**others, "view": urlencode({**filters, "range": "all"})} if filters else others


def _pick(parameters: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: parameters[name] for name in names if parameters.get(name)}
