"""Parameters of the operations in the OpenAPI document, with example values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from integration.catalogue import get_resource
from integration.catalogue.shapes import OPERATORS, Operation, Resource
from integration.core.ids import MAX_ID
from integration.facade.exposure import EXPOSURE, Exposure
from integration.facade.openapi.schemas import FILTER, Json
from integration.facade.policy import list_query_names
from integration.facade.subcollections import SUBCOLLECTIONS

_ID_LIST_PATTERN = "^[0-9]{1,18}(,[0-9]{1,18}){0,100}$"
_PATH_SCHEMAS: Mapping[str, Json] = {
    "id": {"type": "integer", "minimum": 0, "maximum": MAX_ID},
    "ids": {"type": "string", "pattern": _ID_LIST_PATTERN},
    "e164": {"type": "string", "pattern": "^[0-9]{1,20}$"},
}
_DEFAULT_PATH_SCHEMA: Json = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
_OPERATOR_NAMES = ", ".join(f"`{name}`" for name in dict.fromkeys(OPERATORS.values()))
_EXAMPLE_DAY = "2026-09-01"
"""Date in the example of `filter`."""


def write_path(operation: Operation) -> str:
    """Return the path of an operation in the document.

    A path that takes several ids is one with a path that takes one id: OpenAPI does not allow two paths that
    differ only in the name of a parameter.
    """
    return operation.path.replace("{ids}", "{id}")


def has_ranges(operation: Operation) -> bool:
    """Return whether a response supports Range.

    Archived files support Range, generated CSV files do not.
    """
    return EXPOSURE.get(operation.name) is Exposure.FILE and not operation.path.endswith(".csv")


def build_parameters(operation: Operation, max_limit: int) -> list[Json]:
    """Return the parameters in the path, the headers and the query."""
    return [
        *_build_path_parameters(operation),
        *_build_header_parameters(operation),
        *_build_query_parameters(operation, max_limit),
    ]


def _build_path_parameters(operation: Operation) -> list[Json]:
    parameters = []
    for name in operation.parameters:
        parameter = {
            "name": "id" if name == "ids" else name,
            "in": "path",
            "required": True,
            "schema": _PATH_SCHEMAS.get(name, _DEFAULT_PATH_SCHEMA),
        }
        if name == "ids":
            parameter["description"] = "one id, or several separated by commas"
        parameters.append(parameter)
    return parameters


def _build_header_parameters(operation: Operation) -> list[Json]:
    if operation.method == "GET":
        range_schema = {"type": "string", "examples": ["bytes=0-99"]}
        range_parameter = {
            "name": "Range", "in": "header", "description": "byte range of the file", "schema": range_schema,
        }  # fmt: skip
        return [range_parameter] if has_ranges(operation) else []
    key_parameter = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A repeat with the same key within a day gets the first response.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    }
    return [] if operation.is_public else [key_parameter]


def _build_query_parameters(operation: Operation, max_limit: int) -> list[Json]:
    subcollection = SUBCOLLECTIONS.get(operation.name)
    target = get_resource(operation.resource) if operation.resource else None
    if subcollection is not None:
        target = subcollection.resource
    described = {parameter["name"]: parameter for parameter in _build_paging_parameters(target, max_limit)}
    for relation in target.relations if target else ():
        if relation.is_includable:
            described["include"] = _build_query_parameter(
                "include", f"`{relation.name}` and others: ids become objects", {"type": "string"}
            )
            described[f"fields[{relation.name}]"] = _build_query_parameter(
                f"fields[{relation.name}]", "properties to return, separated by commas", {"type": "string"}
            )
    return [described[name] for name in list_query_names(operation)]


def _build_paging_parameters(target: Resource | None, max_limit: int) -> list[Json]:
    positive_integer = {"type": "integer", "minimum": 1}
    names = [field.name for field in target.fields] if target else []
    name_schema: Json = {"type": "string", **({"examples": names[:1]} if names else {})}
    sort_name = (target.key or target.date) if target else None
    return [
        _build_query_parameter("page", "from 1", {**positive_integer, "default": 1}, example=1),
        _build_query_parameter(
            "limit",
            f"records per page; a larger value is treated as {max_limit}",
            {**positive_integer, "default": max_limit},
            example=min(5, max_limit),
        ),
        _build_query_parameter(
            "filter",
            "JSON text: an array of conditions `{property, operator, value}`, combined with AND. Operators: "
            f"{_OPERATOR_NAMES}. `eq` and `ne` accept null. "
            "A date without a time means its midnight. `like` without `%` means contains.",
            {"type": "string", "contentMediaType": "application/json", "contentSchema": FILTER},
            example=_write_example_filter(target),
        ),
        _build_query_parameter("sort", "a property", name_schema, example=sort_name),
        _build_query_parameter(
            "dir", "order of `sort`", {"type": "string", "enum": ["ASC", "DESC"]},
            example="DESC" if sort_name else None,
        ),
        _build_query_parameter(
            "group_by", "a property: the newest record of each value, with a `count`", name_schema
        ),
    ]  # fmt: skip


def _write_example_filter(target: Resource | None) -> str:
    """Return a filter of the collection that matches most of its records."""
    date = target.field(target.date) if target and target.date else None
    conditions: list[dict[str, Any]] = []
    if target and target.history and date and date.actual_type in ("timestamp", "string"):
        conditions = [{"property": date.name, "operator": "gte", "value": _EXAMPLE_DAY}]
    elif target is not None and target.key is not None:
        conditions = [{"property": target.key, "operator": "ne", "value": None}]
    return orjson.dumps(conditions).decode()


def _build_query_parameter(name: str, description: str, schema: Json, *, example: Any = None) -> Json:
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return parameter if example is None else {**parameter, "example": example}
