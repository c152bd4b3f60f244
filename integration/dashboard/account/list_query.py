"""What the URL of a list asks for: search, filters with their operators, order, page, columns.

`filter`, `sort`, `dir` and `page` are the facade's and the exports' own (interface.md §4), so that a list,
its export and a client's request are spelled the same. The filter form sends `property`, `operator` and
`value` instead; `completed` turns them into that spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.dashboard.site import formats
from integration.mirror.query import query
from integration.mirror.query.filter_sql import kind_of
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query
from integration.mirror.records.masking import is_secret

PAGE = 50
NAMES = ("q", "filter", "sort", "dir", "columns", "gone", "page")
LONGEST = 8000
"""Characters of one parameter; what is longer is no link of ours."""

OPERATORS: Mapping[str, str] = {
    "eq": "is",
    "ne": "is not",
    "like": "contains",
    "notlike": "does not contain",
    "gte": "is at least, from",
    "gt": "is more than, after",
    "lte": "is at most, until",
    "lt": "is less than, before",
    "in": "is one of (comma between)",
    "empty": "is empty",
    "filled": "is not empty",
}
"""What the form offers; the last two are eq and ne with null."""
_SHORT = {
    "eq": "is", "ne": "is not", "like": "contains", "notlike": "without", "gte": "≥", "gt": ">", "lte": "≤",
    "lt": "<", "in": "one of",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """`args` holds only what is set; `question` what to ask the mirror; `mistake` why it can't be asked."""

    path: str
    args: Mapping[str, str]
    question: Query
    mistake: str | None = None

    def url(self, **changes: str | None) -> str:
        """This view with some parameters changed (None: without), on its first page unless that is named."""
        merged = {**self.args, "page": None, **changes}
        kept = [(name, value) for name in NAMES if (value := merged.get(name))]
        return self.path + (f"?{urlencode(kept)}" if kept else "")

    @property
    def q(self) -> str:
        return self.args.get("q", "")

    @property
    def narrowed(self) -> bool:
        return bool(self.q or self.question.conditions)

    def without(self, place: int) -> str:
        """The URL without one of the filters."""
        kept = [row for at, row in enumerate(self.question.conditions) if at != place]
        return self.url(filter=_dumped(kept))

    def sorted_by(self, name: str) -> tuple[str, str]:
        """(URL of the list sorted by a field, or the other way round if it is; 'ascending', 'descending' or
        '' for how it is sorted by it now)."""
        now = ""
        if self.question.sort == name:
            now = "descending" if self.question.descending else "ascending"
        return self.url(sort=name, dir="DESC" if now == "ascending" else None), now

    def export(self, columns: str | None, zone: str) -> dict[str, str]:
        """The parameters of the export of this view, the search apart."""
        asked = {name: self.args[name] for name in ("filter", "sort", "dir") if name in self.args}
        if columns:
            asked["columns"] = columns
        return {**asked, "tz": zone} if zone != "UTC" else asked


def read(
    path: str, resource: Resource, args: Mapping[str, str], *, hidden: frozenset[str], missing: bool
) -> View:
    """The view that URL parameters ask for. What can't be asked leaves its reason in `mistake`."""
    kept = {name: args[name].strip() for name in NAMES if args.get(name, "").strip()}
    kept["q"] = kept.get("q", "")[:200]
    mistake = None
    question = Query(resource)
    try:
        if any(len(value) > LONGEST for value in kept.values()):
            raise QueryError("The address is too long.")
        asked = {name: kept[name] for name in kept if name in ("filter", "sort", "dir", "page")}
        question = query.parse(resource, {**asked, "limit": str(PAGE)})
        for name in (
            question.sort,
            *(row.property for row in question.conditions if isinstance(row, Condition)),
        ):
            if name is not None and is_secret(name):
                raise QueryError(f"/{resource.collection} has no property {name!r}")
    except QueryError as error:
        mistake = str(error)
    question = replace(question, missing=missing or kept.get("gone") == "1", hidden=hidden)
    if question.sort is None and missing and resource.date is not None:
        question = replace(question, sort=resource.date, descending=True)
    return View(path, kept, question, mistake)


def completed(view: View, args: MultiDict[str, str], zone: ZoneInfo) -> str | None:
    """The URL that a sent form means; None if `args` are a link's."""
    if "property" in args:
        name = args["property"].strip()
        if not name:
            return view.url()
        added = _condition(
            view.question.resource, name, args.get("operator", "eq"), args.get("value", ""), zone
        )
        return view.url(filter=_dumped([*view.question.conditions, added]))
    if "column" in args:
        return view.url(columns=",".join(dict.fromkeys(args.getlist("column"))), page=view.args.get("page"))
    return None


def _condition(resource: Resource, name: str, operator: str, text: str, zone: ZoneInfo) -> Condition:
    text = text.strip()
    if operator in ("empty", "filled") or (not text and operator in ("eq", "ne")):
        return Condition(name, "ne" if operator in ("filled", "ne") else "eq", None)
    kind = kind_of(resource.field(name), resource)
    if operator == "in":
        return Condition(
            name, "in", [_typed(kind, part.strip(), zone) for part in text.split(",") if part.strip()]
        )
    known = operator if operator in OPERATORS else "eq"
    plain = text if known in ("like", "notlike") else _typed(kind, text, zone)
    return Condition(name, known, plain)  # type: ignore[arg-type]  # narrowed by the line before last


def _typed(kind: str, text: str, zone: ZoneInfo) -> Any:
    if kind == "boolean":
        return {"yes": True, "no": False}.get(text.lower(), text)
    if kind == "time":
        return _utc(text, zone)
    return text


def _utc(text: str, zone: ZoneInfo) -> str:
    """What people write is in the display zone; filters are UTC. What is no time stays, to be refused."""
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return clock.stamp(datetime.strptime(text, form).replace(tzinfo=zone).astimezone(UTC))
        except (ValueError, OverflowError):
            continue
    return text


def _dumped(conditions: list[Any]) -> str | None:
    entries = [
        {"property": row.property, "operator": row.operator, "value": row.value}
        for row in conditions
        if isinstance(row, Condition)
    ]
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")) if entries else None


def filtered(path: str, name: str, value: Any) -> str:
    """The URL of a list of the records whose field `name` is `value`."""
    return f"{path}?{urlencode({'filter': _dumped([Condition(name, 'eq', value)])})}"


def spoken(resource: Resource, condition: Condition, word: Callable[[str, str], str]) -> tuple[str, str]:
    """(operator, value) of a filter in words, times in the display zone; `word` tells what a code means."""
    if condition.value is None:
        return ("is empty" if condition.operator == "eq" else "is not empty"), ""
    listed = condition.value if isinstance(condition.value, list) else [condition.value]
    return _SHORT[condition.operator], ", ".join(
        word(condition.property, _said(resource, condition.property, value)) for value in listed
    )


def _said(resource: Resource, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind_of(resource.field(name), resource) == "time" and isinstance(value, str):
        moment = formats.local(value)
        if moment is not None:
            return f"{moment.day} {moment:%b %Y}" + (
                "" if f"{moment:%H%M%S}" == "000000" else f" {moment:%H:%M}"
            )
    return str(value)
