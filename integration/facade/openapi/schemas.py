"""JSON schemas of the OpenAPI document: records, request bodies, filters, errors."""

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
            "value": {"type": ["string", "number", "boolean", "null", "array"], "items": {}},
        },
    },
}
"""Schema of the JSON text in the parameter `filter`."""
ERROR: Json = {
    "type": "object",
    # `errors` is missing in some errors of the platform, which are passed on.
    "required": ["message"],
    "properties": {
        "message": {"type": "string"},
        "errors": {"type": "array", "items": {"type": ["string", "object"]}},
    },
}
LINKS: Json = {"type": ["object", "array"], "items": {}}
_CODE_MEANINGS = ("code", "open_code", "choice")
"""Meanings of fields that are integers in the specification, but letters or words in real data."""
_LOCALE_NAMES = ("culture", "language")
"""Names of fields of the same kind without a meaning."""

_SAMPLE_VALUES: dict[str, Any] = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
"""Values of required body fields without an example, by type."""


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
    if "array" in type_names:
        # Generators of clients refuse an array without `items`.
        schema["items"] = {}
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


def make_example(schema: Json) -> Any:
    """Return a body with the required fields."""
    if schema["type"] == "array":
        return [make_example(schema["items"])]
    properties = schema.get("properties", {})
    return {
        name: _SAMPLE_VALUES.get(properties[name].get("type", ["string"])[0], "")
        for name in schema.get("required", ())
    }
