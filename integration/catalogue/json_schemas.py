"""JSON schemas of the facade's OpenAPI document: records, bodies, filters, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.catalogue.shapes import Field, Resource
from integration.mirror.query.filters import OPERATORS

Json = dict[str, Any]

FILTER: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["property", "operator", "value"],
        "properties": {
            "property": {"type": "string"},
            "operator": {"enum": list(OPERATORS)},
            "value": {"type": ["string", "number", "boolean", "null", "array"]},
        },
    },
    "examples": [[{"property": "calldate", "operator": "gte", "value": "2026-09-01"}]],
}
ERROR: Json = {
    "type": "object",
    "required": ["message", "errors"],
    "properties": {
        "message": {"type": "string"},
        "errors": {"type": "array", "items": {"type": ["string", "object"]}},
    },
}
LINKS: Json = {"type": ["object", "array"]}


def record_of(row: Resource) -> Json:
    return {"title": row.title, **({"description": row.about} if row.about else {}), **fields_of(row.fields)}


def fields_of(fields: Sequence[Field], *, required: bool = False) -> Json:
    found: Json = {"type": "object", "properties": {field.name: _property(field) for field in fields}}
    needed = [field.name for field in fields if field.required]
    if required and needed:
        found["required"] = needed
    return found


def _property(field: Field) -> Json:
    types = {"timestamp": "string"}
    named = [types.get(name, name) for name in dict.fromkeys((field.real_type, field.type))]
    found: Json = {} if "any" in named else {"type": [*dict.fromkeys(named), "null"]}
    about = [field.about] if field.about else []
    if field.type == "timestamp":
        about.append("'YYYY-MM-DD HH:MM:SS', UTC")
    if field.item_only:
        about.append("only in the record's own path")
    if field.secret:
        about.append("null for local keys")
    if about:
        found["description"] = "; ".join(about)
    return found
