"""What an export is of: which records, which columns, which time zone (interface.md §6 Exports)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from integration import clock
from integration.catalogue.shapes import Resource
from integration.errors import QueryError
from integration.mirror import query
from integration.mirror.filters import Condition
from integration.mirror.query import Query

Reader = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Opens a read-only view of mirror.db, such as `Database.read`."""

HISTORY = frozenset(
    {"cdrs", "monitors", "msdrs", "sms", "voicemessages", "faxes", "chats", "webcalls", "mediasessions"}
)
"""What stays in exports when the platform has it no longer; settings don't (interface.md §6 Deletions)."""

MOST_COLUMNS = 120
"""SQLite functions take 127 arguments, and a line is one of them."""

BOOKKEEPING = ("_first_seen", "_last_seen", "_source", "_missing_since")
"""May be asked for as columns beside the record's own fields."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`columns` in the order of the file; `zone` None for UTC as stored."""

    question: Query
    columns: tuple[str, ...]
    zone: ZoneInfo | None = None

    @property
    def resource(self) -> Resource:
        return self.question.resource


def select(resource: Resource, args: Mapping[str, str], hidden: frozenset[str] = frozenset()) -> Selection:
    """The export that `args` ask for: the facade's filter, sort and dir; `from` (inclusive) and `to` (not
    inclusive) on the collection's date property, in the zone `tz` where given; `columns` a comma list.

    Raises QueryError naming what is wrong.
    """
    if args.get("group_by"):
        raise QueryError("group_by can't be exported")
    plain = {name: args[name] for name in ("filter", "sort", "dir") if args.get(name)}
    question = query.parse(resource, plain, missing=resource.collection in HISTORY, hidden=hidden)
    zone = _zone(args.get("tz"))
    for name, operator in (("from", "gte"), ("to", "lt")):
        text = args.get(name)
        if text:
            if resource.date is None:
                raise QueryError(f"{name}: /{resource.collection} has no date property")
            question = question.also(
                Condition(resource.date, "gte" if operator == "gte" else "lt", _utc(name, text, zone))
            )
    return Selection(question, _columns(resource, args.get("columns")), zone)


def _columns(resource: Resource, text: str | None) -> tuple[str, ...]:
    if text:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if len(names) > MOST_COLUMNS:
            raise QueryError(f"columns: at most {MOST_COLUMNS} are allowed")
        return tuple(dict.fromkeys(names))
    return tuple(field.name for field in resource.fields if field.documented and not field.item_only)


def _zone(name: str | None) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise QueryError(f"tz: {name!r} is not a time zone; one is called 'Europe/London'") from None


def _utc(name: str, text: str, zone: ZoneInfo | None) -> str:
    moment = clock.parse_stamp(text.replace("T", " ").removesuffix("Z"))
    if moment is None:
        raise QueryError(f"{name}: {text!r} is not a date ('YYYY-MM-DD' or 'YYYY-MM-DD HH:MM:SS')")
    if zone is not None:
        moment = datetime.combine(moment.date(), moment.time(), zone).astimezone(UTC)
    return clock.stamp(moment)
