"""What somebody asks to export, by its name and the parameters of its URL: one way for downloads, for files
that are prepared in the background, and for schedules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from integration.access import rights, setup_links
from integration.access import user_scope as narrowing
from integration.access.people import Person
from integration.catalogue import UnknownResource, resource
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.exports import call_filter as calls_view
from integration.exports.formats import csv, jsonl, parquet, xlsx
from integration.exports.formats.zip import Archive
from integration.exports.presets import PRESETS, Preset
from integration.exports.query import Stream
from integration.exports.selection import Selection, select, select_preset
from integration.mirror.page_queries import search_index as search
from integration.mirror.page_queries.history import CallFilter
from integration.settings.model import Settings
from integration.sqlite.beside import Readable
from integration.sqlite.database import Database
from integration.workspace import column_sets

TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "zip": "application/zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
"""Content types by form, which is also the ending of a file's name."""


class Parts(Protocol):
    """What an export is made from: the running product (`context.House`), or databases read beside it."""

    @property
    def settings(self) -> Settings: ...
    @property
    def mirror(self) -> Readable: ...
    @property
    def house(self) -> Readable: ...


class NoSuchExport(QueryError):
    """The name is no preset's and no collection's that can be exported."""


def named(name: str) -> tuple[Resource, Preset | None]:
    """The records that `name` stands for, a preset's or a collection's. Raises NoSuchExport."""
    preset = PRESETS.get(name)
    if preset is not None:
        return preset.resource, preset
    try:
        found = resource(name)
    except UnknownResource as error:
        raise NoSuchExport(str(error)) from None
    if not found.listed or found.table == "me":
        raise NoSuchExport(f"{found.collection} is not a collection that can be exported")
    return found, None


def selection(
    house: Parts,
    name: str,
    args: Mapping[str, str],
    only: int | None = None,
    person: Person | None = None,
) -> Selection:
    """What `args` ask for (docs/exports.md, What to ask for), narrowed to the platform user `only`.

    `person` is who asks, where it is somebody of the dashboard: what their role hides stays hidden, and their
    own column sets are found before shared ones. Whether they may have it at all says `rights.only_of`.
    Raises QueryError, NoSuchExport.
    """
    chosen, preset = named(name)
    hidden, settings = rights.hidden(person, chosen), house.settings
    args = with_columns(house.house, name, args, person)
    zone, base = settings.dashboard.timezone, setup_links.base_url(settings)
    if preset is None:
        found = select(chosen, args, hidden, timezone=zone, base=base)
        found = replace(found, whole=found.whole and rights.sees_raw(person))
    else:
        found = select_preset(preset, args, timezone=zone, base=base, hidden=hidden)
        shown = _shown(house, args)
        if preset.own_table:
            return found.among(replace(shown or CallFilter(), only_user=only))
        if shown is not None:
            if found.resource.field("live_id") is None:
                raise QueryError(f"view: {preset.name} belong to no calls")
            found = found.among(shown)
    if only is not None:
        with house.mirror.read() as connection:
            found = found.also(narrowing.own(connection, chosen, only))
    return found


def filed_under(name: str) -> str:
    """How column sets, audit and files call an export, however its name was spelled. Raises NoSuchExport."""
    chosen, preset = named(name)
    return preset.name if preset else chosen.table


def with_columns(
    house: Readable, name: str, args: Mapping[str, str], person: Person | None = None
) -> Mapping[str, str]:
    """`args` with the columns of the saved set that `set` names, instead of its name. Raises QueryError."""
    wanted = args.get("set")
    if not wanted:
        return args
    if args.get("columns"):
        raise QueryError("set: columns can't be asked for as well")
    with house.read() as connection:
        kept = column_sets.find(connection, filed_under(name), wanted, person.id if person else None)
    if kept is None:
        raise QueryError(f"set: {filed_under(name)} has no column set called {wanted[:64]!r}")
    return {**args, "set": "", "columns": ",".join(kept.columns)}


def chunks(house: Parts, found: Selection, form: str, args: Mapping[str, str]) -> Stream | Archive:
    """The file, its rows counted. Raises QueryError."""
    read = house.mirror.read
    if form == "zip":
        return Archive(read, found, house.settings.storage.data_dir)
    if form == "jsonl":
        return jsonl.stream(read, found)
    if form == "xlsx":
        return xlsx.stream(read, found)
    if form == "parquet":
        return parquet.stream(read, found)
    return csv.stream(read, found, bom=args.get("bom") in ("1", "true"))


def _shown(house: Parts, args: Mapping[str, str]) -> CallFilter | None:
    """The calls that the page Calls shows with the query string `view`; None without one."""
    view = args.get("view")
    if view is None:
        return None
    zone = ZoneInfo(house.settings.dashboard.timezone)
    asked = calls_view.read(
        dict(parse_qsl(view)),
        zone=zone,
        today=clock.now().astimezone(zone).date(),
        calling_code=calls_view.calling_code(house.settings.dashboard.country),
        house=house.house,
    ).asked
    if asked.wanted is not None and isinstance(house.mirror, Database):
        search.catch_up(house.mirror)
    return asked
