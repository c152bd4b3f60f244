"""Selection of an export: records, columns and time zone (docs/exports.md)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from integration.catalogue import HISTORY
from integration.catalogue.collection_titles import get_title
from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.calendar_periods import ExportPeriod, find_export_period
from integration.core.errors import DomainError, QueryError
from integration.exports.columns import use_one_zone
from integration.exports.headings import OPERATOR_LABELS, find_label
from integration.exports.presets import CALL_DERIVED_COLUMNS, Preset
from integration.mirror.calls.schema import CALLS
from integration.mirror.page_queries.call_view import CallView, describe_filters
from integration.mirror.page_queries.history import CallFilter
from integration.mirror.query import query
from integration.mirror.query.filters import AnyOf, Condition
from integration.mirror.query.query import Query
from integration.mirror.records import item_forms

OpenReader = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Opens a read-only view of mirror.db, such as `Database.read`."""

UTC_ZONE = ZoneInfo("UTC")

MAX_COLUMNS = 120
"""Largest number of columns: SQLite functions accept 127 arguments, and a CSV line is one `printf` call."""

BOOKKEEPING_COLUMNS = ("_first_seen", "_last_seen", "_source", "_missing_since")
"""Columns of the mirror that can be exported in addition to the record's own fields."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Records, columns and time zone of an export.

    `columns` are in the order of the file; () means the fields found in the records. `zone` None means UTC as
    stored; `local_zone` is the zone of derived local times. `is_raw`: formats that can contain the records as
    received do so. `since` and `until` (exclusive, UTC text) limit the date property, `call_filters` the
    calls; `view` is the view of the page Calls with these filters. `bound_values` are bound in the SQL of
    columns. With `has_word_headings` headings and file name are in words, not names of the REST API.
    `local_labels`: labels of calls in the application database, by leg id.
    """

    query: Query
    columns: tuple[str, ...]
    zone: ZoneInfo | None = None
    local_zone: ZoneInfo = UTC_ZONE
    is_raw: bool = False
    has_word_headings: bool = False
    since: str | None = None
    until: str | None = None
    preset: Preset | None = None
    call_filters: tuple[CallFilter, ...] = ()
    view: CallView | None = None
    bound_values: Mapping[str, str] = field(default_factory=dict)
    local_labels: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @property
    def resource(self) -> Resource:
        return self.query.resource

    @property
    def name(self) -> str:
        """Name of the preset or table."""
        return self.preset.name if self.preset else self.resource.table

    @property
    def title(self) -> str:
        return self.preset.title if self.preset else get_title(self.resource)

    @property
    def file_name(self) -> str:
        """File name without suffix: 'calls-2026-10', or 'cdrs' for all times.

        With headings in words a file of all times is called 'calls-all'.
        """
        name = normalize_file_name(self.preset.title) if self.preset and self.has_word_headings else self.name
        period = self.period
        has_history = self.resource.history or self.preset is not None
        if period is None or (period.name == "all" and not (self.has_word_headings and has_history)):
            return name
        return f"{name}-{period.name}"

    @property
    def dated_query(self) -> Query:
        """`query`, limited to `since` and `until`."""
        date, conditions = self.resource.date or "", []
        if self.since is not None:
            conditions.append(Condition(date, "gte", self.since))
        if self.until is not None:
            conditions.append(Condition(date, "lt", self.until))
        return self.query.with_conditions(*conditions) if conditions else self.query

    @property
    def period(self) -> ExportPeriod | None:
        """The period of the records in the zone of the export.

        None for records without a date.
        """
        if self.resource.date is None:
            return None
        filters = self.call_filters
        since = max((text for text in (self.since, *(item.since for item in filters)) if text), default=None)
        until = min((text for text in (self.until, *(item.until for item in filters)) if text), default=None)
        return find_export_period(since, until, self.zone or UTC_ZONE)

    def describe(self, users: Sequence[Any] = ()) -> list[tuple[str, str]]:
        """Return the period, the filters and the order as (label, value) lines.

        The lines are for users who read the file. `users`: id and name of platform users.
        """
        lines = []
        if self.period is not None and (self.period.since or self.period.until):
            lines.append(("Period", clock.add_zone(self.period.label, self.zone.key if self.zone else "UTC")))
        for entry in self.query.conditions:
            for condition in entry.conditions if isinstance(entry, AnyOf) else (entry,):
                lines.append(("Filter", self._describe_condition(condition)))
        lines += self.describe_calls(users)
        if self.query.sort is not None:
            name = find_label(self.query.sort) if self.has_word_headings else self.query.sort
            lines.append(("Sorted by", f"{name}{', descending' * self.query.descending}"))
        return lines or [("Filter", "none")]

    def _describe_condition(self, condition: Condition) -> str:
        if not self.has_word_headings:
            return f"{condition.property} {condition.operator} {condition.value}"
        if condition.value is None:
            return f"{find_label(condition.property)} is {'not ' * (condition.operator != 'eq')}empty"
        values = condition.value if isinstance(condition.value, list) else [condition.value]
        words = ", ".join(str(value) for value in values)
        return f"{find_label(condition.property)} {OPERATOR_LABELS[condition.operator]} {words}"

    def summarize(self, users: Sequence[Any]) -> str:
        """Return the period and the filters: '1–31 October 2026, direction: Inbound', '' without any."""
        period = [self.period.label] if self.period else []
        filters = [text for label, text in self.describe(users) if label == "Filter" and text != "none"]
        return ", ".join([*period, *filters])

    def describe_calls(self, users: Sequence[Any] = ()) -> list[tuple[str, str]]:
        """Return the filters of calls as lines of `describe`."""
        texts = []
        if self.view is not None:
            texts = [text for _, text in describe_filters(self.view, users, "+{}".format)]
            texts += [f"search: {self.view.args['q']}"] if "q" in self.view.args else []
        names = {user["id"]: user["name"] for user in users}
        scopes = {item.user_scope for item in self.call_filters} - {None}
        texts += [f"calls of {names.get(scope, scope)}" for scope in scopes]
        return [("Filter", text) for text in texts]

    def with_conditions(self, *conditions: Condition | AnyOf) -> Selection:
        return replace(self, query=self.query.with_conditions(*conditions))

    def with_calls(self, call_filter: CallFilter) -> Selection:
        """Limit the selection to matching calls, or to their records.

        `call_filter`: the conditions of the calls.
        """
        return replace(self, call_filters=(*self.call_filters, call_filter))


def normalize_file_name(name: str) -> str:
    """Return a name in small letters, with hyphens between words: 'missed-calls'.

    Raises DomainError for a name without letters and digits.
    """
    file = re.sub(r"[^\w.]+", "-", name.casefold()).strip("-._")
    if not file:
        raise DomainError("Enter a name that contains letters or digits.")
    return file


def select(
    resource: Resource,
    args: Mapping[str, str],
    hidden: frozenset[str] = frozenset(),
    *,
    timezone: str = "UTC",
    base_url: str = "",
) -> Selection:
    """Parse the parameters of an export of a collection.

    `filter`, `sort` and `dir` are those of the facade. `from` (inclusive) and `to` (exclusive) apply to the
    collection's date property, in the zone `tz` if given. `columns` is separated by commas. `headings` is
    'names' or 'words'; with words the default columns have each time once. Without `tz`, `timezone` is the
    zone of derived local times. Links begin with `base_url`. Raises QueryError.
    """
    if args.get("group_by"):
        raise QueryError("group_by: not supported in exports. Omit the parameter.")
    query_args = {name: args[name] for name in ("filter", "sort", "dir") if args.get(name)}
    parsed_query = query.parse(
        resource, query_args, include_missing=resource.collection in HISTORY, hidden_fields=hidden
    )
    zone = _parse_zone(args.get("tz"))
    requested_columns = _parse_columns(args)
    can_see_items = item_forms.can_see(resource, hidden)
    documented_columns = tuple(
        field.name
        for field in resource.fields
        if field.documented and (can_see_items or not field.item_only) and _is_shown(field.name, hidden)
    )
    has_word_headings = _parse_headings(args)
    local_zone = zone or ZoneInfo(timezone)
    if has_word_headings:
        documented_columns = use_one_zone(resource, documented_columns, local_zone.key)
    since, until = (_parse_limit(resource, name, args, zone) for name in ("from", "to"))
    return Selection(
        parsed_query,
        requested_columns or documented_columns,
        zone,
        local_zone,
        is_raw=not requested_columns and not has_word_headings,
        has_word_headings=has_word_headings,
        since=since,
        until=until,
        bound_values={"base": base_url.rstrip("/")},
    )


def select_preset(
    preset: Preset,
    args: Mapping[str, str],
    *,
    timezone: str,
    base_url: str,
    hidden: frozenset[str] = frozenset(),
) -> Selection:
    """Parse the parameters of a preset, as `select` does.

    Without `tz`, `timezone` is also the zone of `from` and `to`.
    """
    zoned_args = {**args, "tz": args.get("tz") or timezone}
    selection = select(preset.resource, zoned_args, hidden, timezone=timezone, base_url=base_url)
    selection = replace(
        selection,
        query=replace(selection.query, include_missing=True),
        columns=_parse_columns(args)
        or tuple(name for name in _default_columns(preset, selection) if _is_shown(name, hidden)),
        is_raw=False,
        preset=preset,
        call_filters=() if preset.call_filter is None else (preset.call_filter,),
    )
    if preset.resource is CALLS:
        _check_properties_exist(preset, selection.query, selection.columns)
    return selection


def _is_shown(name: str, hidden: frozenset[str]) -> bool:
    """Return whether a default column is in the file.

    The column of a secret shows only that the secret is set.
    """
    return name not in hidden or is_secret(name)


def _default_columns(preset: Preset, selection: Selection) -> tuple[str, ...]:
    if not selection.has_word_headings:
        return preset.columns
    return use_one_zone(preset.resource, preset.columns, selection.local_zone.key)


def _check_properties_exist(preset: Preset, parsed_query: Query, columns: tuple[str, ...]) -> None:
    """Raise QueryError for unknown properties.

    The table of calls has no fields beyond its columns.
    """
    fields = {field.name for field in preset.resource.fields}
    requested = [
        ("filter", entry.property) for entry in parsed_query.conditions if isinstance(entry, Condition)
    ]
    requested += [("sort", parsed_query.sort)] if parsed_query.sort else []
    for where, name, allowed in (
        *((where, name, fields) for where, name in requested),
        *(("columns", name, fields | CALL_DERIVED_COLUMNS.keys()) for name in columns),
    ):
        if name not in allowed:
            raise QueryError(f"{where}: {preset.name} has no property {name[:64]!r}")


def _parse_limit(resource: Resource, name: str, args: Mapping[str, str], zone: ZoneInfo | None) -> str | None:
    """Return the parameter `from` or `to` as UTC text."""
    text = args.get(name)
    if not text:
        return None
    if resource.date is None:
        raise QueryError(f"{name}: /{resource.collection} has no date property")
    return _parse_utc(name, text, zone)


def _parse_headings(args: Mapping[str, str]) -> bool:
    """Return whether headings are in words. Raises QueryError."""
    headings = args.get("headings") or "names"
    if headings not in ("names", "words"):
        raise QueryError(f"headings: {headings[:64]!r} is not possible. Use 'names' or 'words'.")
    return headings == "words"


def _parse_columns(args: Mapping[str, str]) -> tuple[str, ...]:
    names = [name.strip() for name in args.get("columns", "").split(",") if name.strip()]
    if len(names) > MAX_COLUMNS:
        raise QueryError(f"columns: {len(names)} columns requested, at most {MAX_COLUMNS} are allowed")
    return tuple(dict.fromkeys(names))


def _parse_zone(name: str | None) -> ZoneInfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise QueryError(f"tz: {name!r} is not a time zone. Use a name like 'Europe/London'.") from None


def _parse_utc(name: str, text: str, zone: ZoneInfo | None) -> str:
    """Convert a date or time to UTC text.

    A date means its midnight; a time with Z or another offset has it in any zone.
    """
    moment = clock.parse_utc(text)
    if moment is None:
        raise QueryError(f"{name}: {text!r} is not a date. Use 'YYYY-MM-DD' or 'YYYY-MM-DD HH:MM:SS'.")
    if zone is not None and datetime.fromisoformat(text).tzinfo is None:
        try:
            moment = datetime.combine(moment.date(), moment.time(), zone).astimezone(UTC)
        except OverflowError:
            raise QueryError(f"{name}: {text!r} is too early or too late.") from None
    return clock.utc_text(moment)
