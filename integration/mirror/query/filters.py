"""Parse the filter language of the specification (Common conventions, Filter).

A filter is a JSON array of `{property, operator, value}`; a record must match all entries. This module and
query.py define what the specification leaves open. filter_sql.py converts conditions to SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from integration.catalogue.shapes import OPERATORS, Operator
from integration.core.errors import FilterError

MAX_CONDITIONS = 100
"""Conditions of one filter."""
MAX_IN_VALUES = 5000
"""Values of all `in` lists of one filter together (promise S12)."""
MAX_PATTERN_LENGTH = 1000
"""Characters of a pattern of `like` or `notlike`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of a filter, with the operator in canonical spelling."""

    property: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Alternative of conditions: a record has to match one of them.

    Not part of the filter language; user scopes use it.
    """

    conditions: tuple[Condition, ...]


SearchGroups = tuple[tuple[str, ...], ...]
"""Groups of search terms. A record must contain one term of every group."""


@dataclass(frozen=True, slots=True)
class Search:
    """Search of the texts of all fields of a record.

    `include_items`: search column `_item` too.
    """

    groups: SearchGroups
    include_items: bool = True


def parse_filter(text: str) -> tuple[Condition, ...]:
    """Parse the query parameter `filter`.

    Raises FilterError for invalid JSON, another structure, an unknown operator or a value that the operator
    cannot use. `SqlBuilder.build_condition` checks whether the property exists and has values of this type.
    """
    if not text.strip():
        return ()
    try:
        entries = orjson.loads(text)
    except ValueError as error:
        raise FilterError(f"filter is not valid JSON: {error}") from None
    if not isinstance(entries, list):
        raise FilterError("filter must be a JSON array of objects {property, operator, value}")
    if len(entries) > MAX_CONDITIONS:
        raise FilterError(f"filter has {len(entries)} entries; at most {MAX_CONDITIONS} are allowed")
    conditions = tuple(_parse_condition(number, entry) for number, entry in enumerate(entries, 1))
    in_value_count = sum(len(condition.value) for condition in conditions if condition.operator == "in")
    if in_value_count > MAX_IN_VALUES:
        raise FilterError(
            f"the `in` lists of filter hold {in_value_count} values; at most {MAX_IN_VALUES} are allowed"
        )
    return conditions


def _parse_condition(number: int, entry: Any) -> Condition:
    if not isinstance(entry, dict):
        raise FilterError(f"filter entry {number} must be an object {{property, operator, value}}")
    for key in ("property", "operator", "value"):
        if key not in entry:
            raise FilterError(f"filter entry {number} has no {key!r}")
    name, operator_name, value = entry["property"], entry["operator"], entry["value"]
    if not isinstance(name, str):
        raise FilterError(f"filter entry {number}: 'property' must be a string")
    operator = OPERATORS.get(operator_name.lower()) if isinstance(operator_name, str) else None
    if operator is None:
        raise FilterError(f"filter on {quote_value(name)}: unknown operator {quote_value(operator_name)}")
    if operator == "in":
        if not isinstance(value, list):
            raise FilterError(
                f"filter on {quote_value(name)}: `in` requires an array, not {quote_value(value)}"
            )
        for element in value:
            if isinstance(element, list | dict):
                raise FilterError(
                    f"filter on {quote_value(name)}: `in` requires an array of plain values,"
                    f" not with {quote_value(element)} in it"
                )
    elif isinstance(value, list | dict):
        raise FilterError(
            f"filter on {quote_value(name)}: `{operator}` requires a number, string or boolean,"
            f" not {quote_value(value)}"
        )
    elif value is None and operator not in ("eq", "ne"):
        raise FilterError(
            f"filter on {quote_value(name)}: `{operator}` does not accept null; use `eq` or `ne`"
        )
    elif operator in ("like", "notlike"):
        if isinstance(value, bool):
            raise FilterError(
                f"filter on {quote_value(name)}: `{operator}` requires a string, not {quote_value(value)}"
            )
        if len(str(value)) > MAX_PATTERN_LENGTH:
            raise FilterError(
                f"filter on {quote_value(name)}: the pattern has {len(str(value))} characters;"
                f" at most {MAX_PATTERN_LENGTH} are allowed"
            )
    return Condition(name, operator, value)


def quote_value(value: Any) -> str:
    """Return `value` quoted for a message, truncated if it exceeds 64 characters.

    For an array or object only its type: orjson cannot serialize more than 254 levels.
    """
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return repr(text if len(text) <= 64 else text[:61] + "…")
