"""Filters, sorting, grouping and paging of collections, as on the platform.

See the specification, Common conventions, and docs/platform.md#3-collections. Comparisons follow the
platform's database: `like` ignores case, a numeric string equals a number, and null matches only `eq null`.
The response to an invalid filter is `400 {"message": "Filtration error"}`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

Record = dict[str, Any]
ValueTest = Callable[[Any], bool]

MAX_LIMIT = 5000
# The default is undocumented and was not observed. The vendor's command line tool uses 25
# (docs/platform.md#3-collections).
DEFAULT_LIMIT = 25

_SPELLINGS = {
    "eq": "eq =",
    "ne": "ne neq <> !=",
    "lt": "lt <",
    "lte": "lte <=",
    "gt": "gt >",
    "gte": "gte >=",
    "in": "in",
    "like": "like",
    "notlike": "notlike",
}
_OPERATORS = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_COMPARISONS = {"lt": operator.lt, "lte": operator.le, "gt": operator.gt, "gte": operator.ge}


class QueryRefused(Exception):
    """Invalid query. The message is in the platform's wording."""


def select(
    records: Iterable[Record],
    fields: Sequence[str],
    args: Mapping[str, str],
    *,
    unfilterable: frozenset[str] = frozenset(),
) -> tuple[list[Record], int]:
    """Return the page of `records` for the query parameters `args`, and the number of all that match.

    `records`: in the order of the collection, by id.
    `fields`: names that the query may use, except `unfilterable` names in filters.
    Raises QueryRefused.
    """
    matches = list(records)
    for test in _compile_filter(args.get("filter"), fields, unfilterable):
        matches = [record for record in matches if test(record)]
    group, sort = args.get("group_by"), args.get("sort")
    if group:
        if group not in fields:
            raise QueryRefused("Grouping error")
        newest = {_normalize_value(record.get(group)): record for record in matches}
        matches = sorted(newest.values(), key=lambda record: _make_sort_key(record.get("id")))
    # A real client sends `-calldate`. The platform's response is unknown; the simulator sorts by id.
    if sort and not sort.startswith("-"):
        if sort not in fields:
            raise QueryRefused("Sorting error")
        is_descending = args.get("dir", "").upper() == "DESC"
        matches.sort(key=lambda record: _make_sort_key(record.get(sort)), reverse=is_descending)
    try:
        page, limit = (
            max(1, int(args.get(name) or default))
            for name, default in (("page", 1), ("limit", DEFAULT_LIMIT))
        )
    except ValueError as error:
        raise QueryRefused("Validation error") from error
    start = (page - 1) * min(limit, MAX_LIMIT)
    return matches[start : start + min(limit, MAX_LIMIT)], len(matches)


def _compile_filter(
    text: str | None, fields: Sequence[str], unfilterable: frozenset[str]
) -> list[Callable[[Record], bool]]:
    """Compile a `filter` parameter to tests that must all pass. Raises QueryRefused."""
    try:
        entries = orjson.loads(text) if text else []
    except orjson.JSONDecodeError as error:
        raise QueryRefused("Filtration error") from error
    if not isinstance(entries, list):
        raise QueryRefused("Filtration error")
    return [_compile_condition(entry, fields, unfilterable) for entry in entries]


def _compile_condition(
    entry: Any, fields: Sequence[str], unfilterable: frozenset[str]
) -> Callable[[Record], bool]:
    if not isinstance(entry, dict) or not {"property", "value"} <= entry.keys():
        raise QueryRefused("Filtration error")
    name, value = entry["property"], entry["value"]
    operator_name = _OPERATORS.get(str(entry.get("operator", "eq")).lower())
    if (
        operator_name is None
        or name not in fields
        or name in unfilterable
        or isinstance(value, dict)
        or isinstance(value, list) != (operator_name == "in")
    ):
        raise QueryRefused("Filtration error")
    if value is None:
        return lambda record: (
            operator_name in ("eq", "ne") and (record.get(name) is None) == (operator_name == "eq")
        )
    test = _compile_test(operator_name, value)
    return lambda record: record.get(name) is not None and test(record[name])


def _compile_test(operator_name: str, value: Any) -> ValueTest:
    """Compile the test of an operator for values other than null."""
    text, number = str(value), _parse_number(value)
    if operator_name in ("eq", "ne", "in"):
        values = value if operator_name == "in" else [value]
        allowed_values = {equal for entry in values for equal in _list_equal_values(entry)}
        return lambda actual: (_normalize_value(actual) in allowed_values) == (operator_name != "ne")
    if operator_name in ("like", "notlike"):
        pattern = text.lower() if "%" in text else f"%{text.lower()}%"
        segments = ".*".join(map(re.escape, pattern.split("%")))
        expression = re.compile(segments.replace("_", ".") if "%" in text else segments, re.DOTALL)
        return lambda actual: (
            (expression.fullmatch(_format_text(actual).lower()) is not None) == (operator_name == "like")
        )
    compare = _COMPARISONS[operator_name]
    return lambda actual: (
        number is not None and compare(actual, number)
        if isinstance(actual, (int, float))
        else compare(str(actual), text)
    )


def _normalize_value(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else None if isinstance(value, (list, dict)) else value


def _list_equal_values(value: Any) -> tuple[Any, ...]:
    """Return the values equal to `value`: also the number for numeric text, and the text for a number."""
    value = _normalize_value(value)
    number = _parse_number(value)
    return (value,) if number is None else (value, number, str(value))


def _parse_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _format_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _make_sort_key(value: Any) -> tuple[int, Any]:
    """Return a key that sorts null before numbers before text."""
    if value is None or isinstance(value, (int, float)):
        return int(value is not None), value or 0
    return 2, _format_text(value)
