"""What an export is of: which records, which columns, which time zone (interface.md §6 Exports)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.exports.presets import Preset
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.page_queries.search_index import MARK, Wanted
from integration.mirror.query import query
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.query.query import Query

Reader = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Opens a read-only view of mirror.db, such as `Database.read`."""

UTC_ZONE = ZoneInfo("UTC")

HISTORY = frozenset(
    {"cdrs", "monitors", "msdrs", "sms", "voicemessages", "faxes", "chats", "webcalls", "mediasessions"}
)
"""What stays in exports when the platform has it no longer; settings don't (interface.md §6 Deletions)."""

SAID = {
    "since": "begun since (UTC)", "until": "begun before (UTC)", "hours": "at the hours asked for",
    "wanted": "search", "user_id": "person", "only_user": "only of person", "our_number": "number of ours",
    "party": "number", "direction": "direction", "outcome": "outcome", "group": "ring group or queue",
    "country": "country", "at_least": "seconds talked, at least", "at_most": "seconds talked, at most",
    "waited_at_most": "seconds waited, at most", "recorded": "recorded", "voicemail": "with voicemail",
    "charged": "with a cost", "charge_at_least": "cost, at least", "labelled": "with the label asked for",
}  # fmt: skip
"""What narrows calls, in words. The ids that a search found on its way say nothing to a reader."""
FLAGS = frozenset({"hours", "labelled"})
"""Whose values are looked-up ids and spans."""

MOST_COLUMNS = 120
"""SQLite functions take 127 arguments, and a line is one of them."""

BOOKKEEPING = ("_first_seen", "_last_seen", "_source", "_missing_since")
"""May be asked for as columns beside the record's own fields."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`columns` in the order of the file, () for whatever fields the records have; `zone` None for UTC as
    stored, `local` the zone of columns that are local times by name; `whole` for the records as received,
    where the form has room for them. `calls` narrow what the question asks; `context` is bound in columns."""

    question: Query
    columns: tuple[str, ...]
    zone: ZoneInfo | None = None
    local: ZoneInfo = UTC_ZONE
    whole: bool = False
    preset: Preset | None = None
    calls: tuple[CallFilter, ...] = ()
    context: Mapping[str, str] = field(default_factory=dict)

    @property
    def resource(self) -> Resource:
        return self.question.resource

    @property
    def name(self) -> str:
        """What the file is called, without its ending."""
        return self.preset.name if self.preset else self.resource.table

    def described(self) -> list[tuple[str, str]]:
        """What was asked for, in words for a reader of the file."""
        lines = []
        for entry in self.question.conditions:
            for one in entry.conditions if isinstance(entry, AnyOf) else (entry,):
                lines.append(("Filter", f"{one.property} {one.operator} {one.value}"))
        for asked in self.calls:
            for name, word in SAID.items():
                value = getattr(asked, name)
                if isinstance(value, Wanted):
                    value = " ".join("/".join(group) for group in value.groups).replace(MARK, "")
                if value is not None and value is not False:
                    lines.append(("Filter", word if value is True or name in FLAGS else f"{word}: {value}"))
        if self.question.sort is not None:
            lines.append(("Sorted by", f"{self.question.sort}{' descending' * self.question.descending}"))
        return lines or [("Filter", "none")]

    def also(self, *conditions: Condition | AnyOf) -> Selection:
        return replace(self, question=self.question.also(*conditions))

    def among(self, asked: CallFilter) -> Selection:
        """Only the calls that `asked` shows; of recordings and voice messages, only those calls'."""
        return replace(self, calls=(*self.calls, asked))


def select(
    resource: Resource,
    args: Mapping[str, str],
    hidden: frozenset[str] = frozenset(),
    *,
    timezone: str = "UTC",
    base: str = "",
) -> Selection:
    """The export that `args` ask for: the facade's filter, sort and dir; `from` (inclusive) and `to` (not
    inclusive) on the collection's date property, in the zone `tz` where given; `columns` a comma list.

    `timezone` is for columns that are local times where no `tz` is given; links begin with `base`. Raises
    QueryError naming what is wrong.
    """
    if args.get("group_by"):
        raise QueryError("group_by can't be exported")
    plain = {name: args[name] for name in ("filter", "sort", "dir") if args.get(name)}
    question = query.parse(resource, plain, missing=resource.collection in HISTORY, hidden=hidden)
    zone = _zone(args.get("tz"))
    asked = _asked_columns(args)
    documented = (field.name for field in resource.fields if field.documented and not field.item_only)
    return Selection(
        _between(question, args, zone),
        asked or tuple(documented),
        zone,
        zone or ZoneInfo(timezone),
        whole=not asked,
        context={"base": base.rstrip("/")},
    )


def select_preset(
    preset: Preset, args: Mapping[str, str], *, timezone: str, base: str, hidden: frozenset[str] = frozenset()
) -> Selection:
    """As `select`, of a preset: without `tz`, `timezone` is the zone of `from` and `to` too."""
    zoned = {**args, "tz": args.get("tz") or timezone}
    chosen = select(preset.resource, zoned, hidden, timezone=timezone, base=base)
    chosen = replace(
        chosen,
        question=replace(chosen.question, missing=True),
        columns=_asked_columns(args) or preset.columns,
        whole=False,
        preset=preset,
        calls=() if preset.calls is None else (preset.calls,),
    )
    if preset.own_table:
        _check_known(preset, chosen.question, chosen.columns)
    return chosen


def _check_known(preset: Preset, question: Query, columns: tuple[str, ...]) -> None:
    """A table of ours has no records that could know more than its columns."""
    fields = {field.name for field in preset.resource.fields}
    asked = [("filter", entry.property) for entry in question.conditions if isinstance(entry, Condition)]
    asked += [("sort", question.sort)] if question.sort else []
    extras = {extra.name for extra in preset.extras}
    for where, name, known in (
        *((where, name, fields) for where, name in asked),
        *(("columns", name, fields | extras) for name in columns),
    ):
        if name not in known:
            raise QueryError(f"{where}: {preset.name} has no property {name[:64]!r}")


def _between(question: Query, args: Mapping[str, str], zone: ZoneInfo | None) -> Query:
    resource = question.resource
    for name, operator in (("from", "gte"), ("to", "lt")):
        text = args.get(name)
        if text:
            if resource.date is None:
                raise QueryError(f"{name}: /{resource.collection} has no date property")
            question = question.also(
                Condition(resource.date, "gte" if operator == "gte" else "lt", _utc(name, text, zone))
            )
    return question


def _asked_columns(args: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in args.get("columns", "").split(",") if name.strip()]
    if len(names) > MOST_COLUMNS:
        raise QueryError(f"columns: at most {MOST_COLUMNS} are allowed")
    return tuple(dict.fromkeys(names))


def _zone(name: str | None) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise QueryError(f"tz: {name!r} is not a time zone; one is called 'Europe/London'") from None


def _utc(name: str, text: str, zone: ZoneInfo | None) -> str:
    """A date is its midnight; with a Z it is UTC whatever the zone."""
    stamp = text.replace("T", " ").removesuffix("Z")
    moment = clock.parse_stamp(f"{stamp}:00" if len(stamp) == len("2026-07-01 09:15") else stamp)
    if moment is None:
        raise QueryError(f"{name}: {text!r} is not a date ('YYYY-MM-DD' or 'YYYY-MM-DD HH:MM:SS')")
    if zone is not None and not text.endswith("Z"):
        moment = datetime.combine(moment.date(), moment.time(), zone).astimezone(UTC)
    return clock.stamp(moment)
