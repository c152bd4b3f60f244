"""JSON schemas of the facade's OpenAPI document: records, request bodies, filters, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.catalogue.shapes import OPERATORS, Field, Resource

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
_CODE_MEANINGS = ("code", "open_code", "choice")
"""Meanings of fields that are integers in the specification, but letters or words in real data."""
_LOCALE_NAMES = ("culture", "language")
"""Names of fields of the same kind without a meaning."""
LINKS: Json = {"type": ["object", "array"]}


def build_record_schema(resource: Resource) -> Json:
    return {
        "title": resource.title,
        **({"description": resource.about} if resource.about else {}),
        **build_fields_schema(resource.fields),
    }


def build_fields_schema(fields: Sequence[Field], *, required: bool = False) -> Json:
    schema: Json = {
        "type": "object",
        "properties": {field.name: _build_property_schema(field) for field in fields},
    }
    required_names = [field.name for field in fields if field.required]
    if required and required_names:
        schema["required"] = required_names
    return schema


def _build_property_schema(field: Field) -> Json:
    types = {"timestamp": "string"}
    type_names = [types.get(name, name) for name in dict.fromkeys((field.actual_type, field.type))]
    if "integer" in type_names and (field.meaning in _CODE_MEANINGS or field.name in _LOCALE_NAMES):
        type_names.append("string")
    schema: Json = {} if "any" in type_names else {"type": [*dict.fromkeys(type_names), "null"]}
    notes = [field.about] if field.about else []
    if field.type == "timestamp":
        notes.append("'YYYY-MM-DD HH:MM:SS', UTC")
    if field.item_only:
        notes.append("returned by the record's own path only")
    if field.meaning == "secret":
        notes.append("null for local keys")
    if notes:
        schema["description"] = "; ".join(notes)
    return schema
