"""Convert name and URL parameters of an export into a selection.

Downloads, export jobs, schedules and the command `export` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from integration.access.user_scope import filter_for
from integration.access.visibility import UNLIMITED, Visibility
from integration.catalogue import UnknownResource, get_resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.exports.formats import FORMATS
from integration.exports.formats.format import SEPARATORS, StreamOptions
from integration.exports.presets import PRESETS, Preset
from integration.exports.query import ChunkedFile
from integration.exports.selection import Selection, select, select_preset
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries import call_view, history
from integration.mirror.page_queries.call_view import CallView
from integration.mirror.page_queries.history import CallFilter
from integration.settings.base_url import find_base_url
from integration.sqlite.readers import Readable
from integration.workspace import call_labels, notes, saved

if TYPE_CHECKING:
    from integration.access.people import Person
    from integration.context import AppContext
    from integration.settings.model import Settings

_LABEL_COLUMNS = frozenset({"labels", "label_origins"})
"""Columns of calls that need local labels."""


class ExportContext(Protocol):
    """Settings and databases of exports.

    Implemented by `AppContext`, and by databases that a command opened.
    """

    @property
    def settings(self) -> Settings: ...
    @property
    def mirror_db(self) -> Readable: ...
    @property
    def app_db(self) -> Readable: ...


class UnknownExport(QueryError):
    """The name is neither a preset nor an exportable collection."""


def find_export(name: str) -> tuple[Resource, Preset | None]:
    """Return the resource, and the preset if `name` is one. Raises UnknownExport."""
    preset = PRESETS.get(name)
    if preset is not None:
        return preset.resource, preset
    try:
        target = get_resource(name)
    except UnknownResource as error:
        raise UnknownExport(str(error)) from None
    if not target.is_listed or target.table == "me":
        raise UnknownExport(f"The collection {target.collection} cannot be exported.")
    return target, None


def build_selection(
    context: ExportContext,
    name: str,
    args: Mapping[str, str],
    viewer: Visibility = UNLIMITED,
    person: Person | None = None,
) -> Selection:
    """Build the selection of `args`, limited to records that `viewer` can see.

    The parameters are in docs/exports.md. The column sets of `person` take precedence over shared ones. The
    caller checks the right to export with `Visibility.check_export`. Raises QueryError and UnknownExport.
    """
    target, preset = find_export(name)
    hidden_fields, settings = viewer.hidden_fields(target), context.settings
    user_scope = viewer.scope_of(target)
    args = apply_column_set(context.app_db, name, args, person)
    zone, base_url = settings.dashboard.timezone, find_base_url(settings)
    if preset is None:
        result = select(target, args, hidden_fields, timezone=zone, base_url=base_url)
        result = replace(result, is_raw=result.is_raw and viewer.can_see_raw(target))
    else:
        result = select_preset(preset, args, timezone=zone, base_url=base_url, hidden=hidden_fields)
        view, page_filter = _parse_view(context, args), None
        if view is not None:
            result = replace(result, view=view)
            page_filter = viewer.restrict_search(
                call_labels.add_noted_legs(view, context.app_db, context.mirror_db)
            )
        if target is CALLS:
            if _LABEL_COLUMNS.intersection(result.columns):
                with context.app_db.read() as connection:
                    result = replace(result, local_labels=notes.load_all_labels(connection))
            return result.with_calls(replace(page_filter or CallFilter(), user_scope=user_scope))
        if page_filter is not None:
            if result.resource.field("live_id") is None:
                raise QueryError(f"view: {preset.name} cannot be filtered by calls. Omit the parameter.")
            result = result.with_calls(page_filter)
    if user_scope is not None:
        with context.mirror_db.read() as connection:
            result = result.with_conditions(filter_for(connection, target, user_scope))
    return result


def canonical_name(name: str) -> str:
    """Return the stored name of an export.

    Column sets, audit log and file names use this name. Raises UnknownExport.
    """
    target, preset = find_export(name)
    return preset.name if preset else target.table


def apply_column_set(
    app_db: Readable, name: str, args: Mapping[str, str], person: Person | None = None
) -> Mapping[str, str]:
    """Replace `set` in `args` by the columns of this column set.

    Raises QueryError for an unknown set, and for `set` together with `columns`.
    """
    set_name = args.get("set")
    if not set_name:
        return args
    if args.get("columns"):
        raise QueryError("set: cannot be combined with columns. Use one of them.")
    with app_db.read() as connection:
        column_set = saved.find(
            connection, saved.COLUMN_SETS, canonical_name(name), set_name, person.id if person else None
        )
    columns = column_set.columns if column_set else list_ready_sets(name).get(saved.normalize_name(set_name))
    if columns is None:
        raise QueryError(f"set: {canonical_name(name)} has no column set {set_name[:64]!r}")
    return {**args, "set": "", "columns": ",".join(columns)}


def list_ready_sets(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of ready-made column sets by name.

    A saved set with the same name takes precedence.
    """
    _, preset = find_export(name)
    return preset.column_sets if preset else {}


def make_file_name(
    context: ExportContext, name: str, args: Mapping[str, str], viewer: Visibility, person: Person | None
) -> str:
    """Return the file name of an export without suffix.

    If the parameters are no longer valid, return the name of the export.
    """
    try:
        return build_selection(context, name, args, viewer, person).file_name
    except QueryError:
        return canonical_name(name)


def describe_limits(context: AppContext, args: Mapping[str, str]) -> str:
    """Return the filters of an export for the audit log, such as ', only Inbound, search'.

    The file name has the period. The text of a search may be a telephone number and is omitted.
    """
    view = call_view.parse_view(dict(parse_qsl(args.get("view", ""))), context.settings)
    with context.mirror_db.read() as connection:
        users = history.list_users(connection)
    described = call_view.describe_filters(view, users, context.phone_numbers.format_national)
    limits = [description for _, description in described]
    limits += [
        word for word, text in (("search", view.args.get("q")), ("filter", args.get("filter"))) if text
    ]
    return f", only {', '.join(limits)}" if limits else ""


def freeze_days(settings: Settings, args: Mapping[str, str]) -> dict[str, str]:
    """Replace a range such as “7 days” in `view` by its dates.

    A file that is prepared later, or named later, then has the same days.
    """
    if args.get("view") is None:
        return dict(args)
    zone = ZoneInfo(settings.dashboard.timezone)
    view = call_view.freeze_days(dict(parse_qsl(args["view"])), clock.now().astimezone(zone).date())
    return {**args, "view": urlencode(view)}


def open_chunks(
    context: ExportContext, selected: Selection, form: str, args: Mapping[str, str], *, threads: int = 0
) -> ChunkedFile:
    """Open an export as a chunked file with counted rows.

    `threads` may compute it. Raises QueryError.
    """
    separator = args.get("separator") or ","
    if separator not in SEPARATORS:
        raise QueryError(f"separator: {separator[:64]!r} is not possible. Use ',' or ';'.")
    options = StreamOptions(
        context.settings.storage.data_dir,
        bom=args.get("bom") in ("1", "true"),
        separator=separator,
        threads=threads,
    )
    return FORMATS[form].stream(context.mirror_db.read, selected, options)


def _parse_view(context: ExportContext, args: Mapping[str, str]) -> CallView | None:
    """Parse the query string of the page Calls in parameter `view`; None without it."""
    if args.get("view") is None:
        return None
    default_days = (_parse_day(args.get("from")), _parse_day(args.get("to")))
    return call_view.parse_view(dict(parse_qsl(args["view"])), context.settings, default_days=default_days)


def _parse_day(text: str | None) -> date | None:
    return call_view.parse_day((text or "")[:10])
