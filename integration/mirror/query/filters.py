"""The filter language of the specification (Common conventions, Filter).

A filter is a JSON array of `{property, operator, value}`; entries AND together. This module and
query.py settle what the specification leaves open. filter_sql.py makes SQL of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from integration.catalogue.shapes import OPERATORS, Operator
from integration.core.errors import QueryError

MAX_CONDITIONS = 100
MAX_IN_VALUES = 5000
"""All `in` lists of one filter together (promise S12)."""
MAX_PATTERN_LENGTH = 1000
MAX_TEXT_LENGTH = 65_536


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of a filter, its operator in the canonical spelling."""

    property: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where one of the conditions is. Not part of the filter language; for narrowing what a key sees."""

    conditions: tuple[Condition, ...]


def parse_filter(text: str) -> tuple[Condition, ...]:
    """The conditions in `text`, the value of the query parameter `filter`.

    Raises QueryError naming what is wrong: JSON, shape, operator, or a value no operator could use. Whether
    the property exists and the value suits it is known only where the records are (`SqlBuilder.condition`).
    """
    if not text.strip():
        return ()
    try:
        entries = orjson.loads(text)
    except ValueError as error:
        raise QueryError(f"filter is not valid JSON: {error}") from None
    if not isinstance(entries, list):
        raise QueryError("filter must be an array of objects {property, operator, value}")
    if len(entries) > MAX_CONDITIONS:
        raise QueryError(f"filter has {len(entries)} entries; at most {MAX_CONDITIONS} are allowed")
    conditions = tuple(_parse_condition(number, entry) for number, entry in enumerate(entries, 1))
    in_value_count = sum(len(condition.value) for condition in conditions if condition.operator == "in")
    if in_value_count > MAX_IN_VALUES:
        raise QueryError(
            f"the `in` lists of filter hold {in_value_count} values; at most {MAX_IN_VALUES} are allowed"
        )
    return conditions


def _parse_condition(number: int, entry: Any) -> Condition:
    if not isinstance(entry, dict):
        raise QueryError(f"filter entry {number} must be an object {{property, operator, value}}")
    for key in ("property", "operator", "value"):
        if key not in entry:
            raise QueryError(f"filter entry {number} has no {key!r}")
    name, operator_name, value = entry["property"], entry["operator"], entry["value"]
    if not isinstance(name, str):
        raise QueryError(f"filter entry {number}: 'property' must be a string")
    operator = OPERATORS.get(operator_name.lower()) if isinstance(operator_name, str) else None
    if operator is None:
        raise QueryError(f"filter on {quote_value(name)}: unknown operator {quote_value(operator_name)}")
    if operator == "in":
        if not isinstance(value, list):
            raise QueryError(f"filter on {quote_value(name)}: `in` needs an array")
        for element in value:
            if isinstance(element, list | dict):
                raise QueryError(f"filter on {quote_value(name)}: `in` needs an array of plain values")
    elif isinstance(value, list | dict):
        raise QueryError(f"filter on {quote_value(name)}: `{operator}` needs a plain value")
    elif value is None and operator not in ("eq", "ne"):
        raise QueryError(f"filter on {quote_value(name)}: only eq and ne take null, not `{operator}`")
    elif operator in ("like", "notlike"):
        if isinstance(value, bool):
            raise QueryError(f"filter on {quote_value(name)}: `{operator}` needs a string")
        if len(str(value)) > MAX_PATTERN_LENGTH:
            raise QueryError(
                f"filter on {quote_value(name)}: a pattern has at most {MAX_PATTERN_LENGTH} characters"
            )
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise QueryError(f"filter on {quote_value(name)}: the value is too long")
    return Condition(name, operator, value)


def quote_value(value: Any) -> str:
    """`value` for a message: quoted, and not longer than a line."""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return repr(text if len(text) <= 64 else text[:61] + "…")
