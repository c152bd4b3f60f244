"""Filters, sorting, grouping and paging of collections, as on the platform.

See the specification, Common conventions, and docs/platform.md#3-collections. Comparisons follow the
platform's database: `like` ignores case, a numeric string equals a number, and null matches only `eq null`.
The response to an invalid filter is `400 {"message": "Filtration error"}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Record = dict[str, Any]
RecordTest = Callable[[Record], bool]

MAX_LIMIT = 5000
# The default is undocumented and was not observed. The vendor's command line tool uses 25
# (docs/platform.md#3-collections).
DEFAULT_LIMIT = 25

_OPERATORS = {
    alias: operator
    for operator, aliases in {
        "eq": "eq =",
        "ne": "ne neq <> !=",
        "lt": "lt <",
        "lte": "lte <=",
        "gt": "gt >",
        "gte": "gte >=",
        "in": "in",
        "like": "like",
        "notlike": "notlike",
    }.items()
    for alias in aliases.split()
}


class QueryRefused(Exception):
    """Invalid query. The message is in the platform's wording."""


@dataclass(frozen=True, slots=True)
class Page:
    """Page of records, and the number of all matching records."""

    records: list[Record]
    total: int


def select(
    records: Iterable[Record],
    fields: Sequence[str],
    args: Mapping[str, str],
    *,
    unfilterable: frozenset[str] = frozenset(),
) -> Page:
    """Select the page of `records` for the query parameters `args`.

    `records`: in the order of the collection, by id.
    `fields`: names that the query may use, except `unfilterable` names in filters.
    Raises QueryRefused.
    """
    tests = [*compile_filter(args.get("filter"), fields, unfilterable)]
    matches = (
        [record for record in records if all(test(record) for test in tests)] if tests else list(records)
    )
    group = args.get("group_by")
    if group:
        matches = _group_records(matches, group, fields)
    sort = args.get("sort")
    # A real client sends `-calldate`. The platform's response is unknown; the simulator sorts by id.
    if sort and not sort.startswith("-"):
        if sort not in fields:
            raise QueryRefused("Sorting error")
        matches.sort(
            key=lambda record: _make_sort_key(record.get(sort)), reverse=args.get("dir", "").upper() == "DESC"
        )
    page, limit = (
        _parse_positive_integer(args, "page", 1),
        min(_parse_positive_integer(args, "limit", DEFAULT_LIMIT), MAX_LIMIT),
    )
    start = (page - 1) * limit
    return Page(matches[start : start + limit], len(matches))


def compile_filter(
    text: str | None, fields: Sequence[str], unfilterable: frozenset[str] = frozenset()
) -> list[RecordTest]:
    """Compile a `filter` parameter to tests that must all pass. Raises QueryRefused."""
    if not text:
        return []
    try:
        entries = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise QueryRefused("Filtration error") from error
    if not isinstance(entries, list):
        raise QueryRefused("Filtration error")
    return [_compile_condition(entry, fields, unfilterable) for entry in entries]


def _compile_condition(entry: Any, fields: Sequence[str], unfilterable: frozenset[str]) -> RecordTest:
    if not isinstance(entry, dict) or "property" not in entry or "value" not in entry:
        raise QueryRefused("Filtration error")
    name, value = entry["property"], entry["value"]
    operator = _OPERATORS.get(str(entry.get("operator", "eq")).lower())
    is_list = isinstance(value, list)
    if operator is None or name not in fields or name in unfilterable or isinstance(value, dict):
        raise QueryRefused("Filtration error")
    if is_list != (operator == "in"):
        raise QueryRefused("Filtration error")
    if operator == "in":
        allowed_values = {key for item in value for key in _list_equal_values(item)}
        return lambda record: _normalize_value(record.get(name)) in allowed_values
    if value is None and operator in ("eq", "ne"):
        return lambda record: (record.get(name) is None) == (operator == "eq")
    if operator in ("eq", "ne"):
        equal_values, is_equal = _list_equal_values(value), operator == "eq"
        return lambda record: (
            record.get(name) is not None and (_normalize_value(record[name]) in equal_values) == is_equal
        )
    if operator in ("like", "notlike"):
        matches, is_like = _compile_pattern(str(value)), operator == "like"
        return lambda record: record.get(name) is not None and matches(_format_text(record[name])) == is_like
    return _compile_comparison(operator, name, value)


def _compile_comparison(operator: str, name: str, value: Any) -> RecordTest:
    if value is None:
        return lambda _: False
    number = _parse_number(value)

    def compare(record: Record) -> int | None:
        field_value = record.get(name)
        if field_value is None:
            return None
        if isinstance(field_value, (int, float)):
            if number is None:
                return None
            return (field_value > number) - (field_value < number)
        text = str(value)
        return (str(field_value) > text) - (str(field_value) < text)

    accepted_results = {"lt": (-1,), "lte": (-1, 0), "gt": (1,), "gte": (1, 0)}[operator]
    return lambda record: compare(record) in accepted_results


def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    needle = pattern.lower()
    if "%" not in needle:
        return lambda text: needle in text.lower()
    segments = [re.escape(part) for part in needle.split("%")]
    expression = re.compile(".*".join(segments).replace("_", "."), re.DOTALL)
    return lambda text: expression.fullmatch(text.lower()) is not None


def _normalize_value(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value if not isinstance(value, (list, dict)) else None


def _list_equal_values(value: Any) -> tuple[Any, ...]:
    """Return the values equal to `value`.

    They include the number for numeric text, and the text for a number.
    """
    value = _normalize_value(value)
    if isinstance(value, str):
        number = _parse_number(value)
        return (value,) if number is None else (value, number)
    if isinstance(value, (int, float)):
        return (value, str(value))
    return (value,)


def _parse_number(value: Any) -> float | int | None:
    if isinstance(value, (int, float)):
        return value
    for convert in (int, float):
        try:
            return convert(value)
        except (TypeError, ValueError):
            continue
    return None


def _format_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _make_sort_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (1, value)
    return (2, _format_text(value))


def _group_records(records: list[Record], name: str, fields: Sequence[str]) -> list[Record]:
    if name not in fields:
        raise QueryRefused("Grouping error")
    newest: dict[Any, Record] = {}
    for record in records:
        newest[_normalize_value(record.get(name))] = record
    return sorted(newest.values(), key=lambda record: _make_sort_key(record.get("id")))


def _parse_positive_integer(args: Mapping[str, str], name: str, default: int) -> int:
    text = args.get(name)
    if text is None or text == "":
        return default
    try:
        return max(1, int(text))
    except ValueError as error:
        raise QueryRefused("Validation error") from error
