"""URL parameters of a list: search, filters, order, page and columns.

`filter`, `sort`, `dir` and `page` are the same as in the facade and in exports. The filter form sends
`property`, `operator` and `value` instead; `url_from_form` converts them.
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

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.core.errors import QueryError
from integration.dashboard.site import formats
from integration.exports.headings import OPERATOR_LABELS
from integration.mirror.query import query
from integration.mirror.query.filter_sql import get_value_kind
from integration.mirror.query.filters import Condition
from integration.mirror.query.query import Query

PAGE_SIZE = 50
PARAMETERS = ("q", "filter", "sort", "dir", "columns", "gone", "page")

OPERATORS: Mapping[str, str] = {
    "eq": "is",
    "ne": "is not",
    "like": "contains",
    "notlike": "does not contain",
    "gte": "is at least / from",
    "gt": "is more than / after",
    "lte": "is at most / until",
    "lt": "is less than / before",
    "in": "is one of (separate by commas)",
    "empty": "is empty",
    "filled": "is not empty",
}
"""Operators of the filter form. The last two are eq and ne with null."""


@dataclass(frozen=True, slots=True)
class ListView:
    """View of a list.

    `args` has the parameters that are set, `query` is the query of the mirror. `mistake` is the error message
    of an invalid view.
    """

    path: str
    args: Mapping[str, str]
    query: Query
    mistake: str | None = None

    def url(self, **changes: str | None) -> str:
        """Return the URL with changed parameters.

        None removes a parameter. `page` is 1 unless it is changed.
        """
        merged = {**self.args, "page": None, **changes}
        parameters = [(name, value) for name in PARAMETERS if (value := merged.get(name))]
        return self.path + (f"?{urlencode(parameters)}" if parameters else "")

    @property
    def q(self) -> str:
        return self.args.get("q", "")

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.query.conditions)

    def url_without_condition(self, index: int) -> str:
        """Return the URL without the filter at `index`."""
        conditions = [
            condition for position, condition in enumerate(self.query.conditions) if position != index
        ]
        return self.url(filter=_dump_conditions(conditions))

    def sort_link(self, name: str) -> tuple[str, str]:
        """Return (URL sorted by a field, current order by this field).

        The order is 'ascending', 'descending' or ''. If it is ascending, the URL sorts descending.
        """
        current_order = ""
        if self.query.sort == name:
            current_order = "descending" if self.query.descending else "ascending"
        return self.url(sort=name, dir="DESC" if current_order == "ascending" else None), current_order


def parse_view(
    path: str,
    resource: Resource,
    args: Mapping[str, str],
    *,
    hidden_fields: frozenset[str],
    include_missing: bool,
) -> ListView:
    """Parse URL parameters to a view.

    For invalid parameters, `mistake` of the view is the error message.
    """
    parameters = {name: args[name].strip() for name in PARAMETERS if args.get(name, "").strip()}
    parameters["q"] = parameters.get("q", "")[:200]
    mistake = None
    record_query = Query(resource)
    try:
        query_parameters = {
            name: parameters[name] for name in parameters if name in ("filter", "sort", "dir", "page")
        }
        record_query = query.parse(resource, {**query_parameters, "limit": str(PAGE_SIZE)})
        for name in (
            record_query.sort,
            *(
                condition.property
                for condition in record_query.conditions
                if isinstance(condition, Condition)
            ),
        ):
            if name is not None and is_secret(name):
                raise QueryError(f"/{resource.collection} has no property {name!r}")
    except QueryError as error:
        mistake = str(error)
    record_query = replace(
        record_query,
        include_missing=include_missing or parameters.get("gone") == "1",
        hidden_fields=hidden_fields,
    )
    if record_query.sort is None and include_missing and resource.date is not None:
        record_query = replace(record_query, sort=resource.date, descending=True)
    return ListView(path, parameters, record_query, mistake)


def url_from_form(list_view: ListView, args: MultiDict[str, str], zone: ZoneInfo) -> str | None:
    """Return the URL for a submitted form.

    Returns None if `args` come from a link.
    """
    if "property" in args:
        name = args["property"].strip()
        if not name:
            return list_view.url()
        condition = _parse_condition(
            list_view.query.resource, name, args.get("operator", "eq"), args.get("value", ""), zone
        )
        return list_view.url(filter=_dump_conditions([*list_view.query.conditions, condition]))
    if "column" in args:
        return list_view.url(
            columns=",".join(dict.fromkeys(args.getlist("column"))), page=list_view.args.get("page")
        )
    return None


def _parse_condition(resource: Resource, name: str, operator: str, text: str, zone: ZoneInfo) -> Condition:
    text = text.strip()
    if operator in ("empty", "filled") or (not text and operator in ("eq", "ne")):
        return Condition(name, "ne" if operator in ("filled", "ne") else "eq", None)
    kind = get_value_kind(resource.field(name), resource)
    if operator == "in":
        return Condition(
            name, "in", [_parse_value(kind, part.strip(), zone) for part in text.split(",") if part.strip()]
        )
    valid_operator = operator if operator in OPERATORS else "eq"
    value = text if valid_operator in ("like", "notlike") else _parse_value(kind, text, zone)
    return Condition(name, valid_operator, value)  # type: ignore[arg-type]  # narrowed by the line before last


def _parse_value(kind: str, text: str, zone: ZoneInfo) -> Any:
    if kind == "boolean":
        return {"yes": True, "no": False}.get(text.lower(), text)
    if kind == "time":
        return _to_utc_text(text, zone)
    return text


def _to_utc_text(text: str, zone: ZoneInfo) -> str:
    """Convert a time in `zone` to UTC text.

    An invalid time is returned unchanged and rejected later.
    """
    for time_format in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return clock.utc_text(datetime.strptime(text, time_format).replace(tzinfo=zone).astimezone(UTC))
        except (ValueError, OverflowError):
            continue
    return text


def _dump_conditions(conditions: list[Any]) -> str | None:
    entries = [
        {"property": condition.property, "operator": condition.operator, "value": condition.value}
        for condition in conditions
        if isinstance(condition, Condition)
    ]
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":")) if entries else None


def filtered_url(path: str, name: str, value: Any) -> str:
    """Return the URL of the records whose field `name` is `value`."""
    return f"{path}?{urlencode({'filter': _dump_conditions([Condition(name, 'eq', value)])})}"


def describe_condition(
    resource: Resource, condition: Condition, label_code: Callable[[str, str], str]
) -> tuple[str, str]:
    """Return (operator, value) of a filter for display.

    Times are in the display zone. `label_code(field name, code)` returns the label of a code.
    """
    if condition.value is None:
        return ("is empty" if condition.operator == "eq" else "is not empty"), ""
    values = condition.value if isinstance(condition.value, list) else [condition.value]
    return OPERATOR_LABELS[condition.operator], ", ".join(
        label_code(condition.property, _describe_value(resource, condition.property, value))
        for value in values
    )


def _describe_value(resource: Resource, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if get_value_kind(resource.field(name), resource) == "time" and isinstance(value, str):
        local_time = formats.to_display_zone(value)
        if local_time is not None:
            return f"{local_time.day} {local_time:%b %Y}" + (
                "" if f"{local_time:%H%M%S}" == "000000" else f" {local_time:%H:%M}"
            )
    return str(value)
