"""Contents of the invented account (account.toml), and records made from them and from the catalogue."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

from integration import catalogue
from integration.catalogue.shapes import Field

SEEDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("account.toml").read_text("utf-8"))
COLLECTIONS: dict[str, dict[str, Any]] = SEEDS["collections"]
"""Facts and seeded records by collection."""

CODE_FIELDS = ("property", "id", "name")


def list_codes(collection: str) -> list[dict[str, Any]]:
    """List the records of `/<collection>/dictionaries`.

    Only the path is specified. Form and names are invented.
    """
    return [dict(zip(CODE_FIELDS, row, strict=True)) for row in COLLECTIONS[collection]["codes"]]


def list_code_values(collection: str, field: str) -> list[Any]:
    """List the codes of one field."""
    return [row["id"] for row in list_codes(collection) if row["property"] == field]


Record = dict[str, Any]

ACCOUNT_CREATED_AT = "2025-01-13 09:00:00"
"""UTC time of creation of the account and of its initial records."""

_VALUES_BY_NAME = {"created_at": ACCOUNT_CREATED_AT, "language": "en"}
_RECORD_FIELD_NAMES = {"moh_id": "moh", "ivr_id": "ivr", "extension_id": "extension"}
"""Names in records by names in request bodies, where they differ."""


@functools.cache
def list_fields(name: str, *, is_full: bool = False) -> tuple[str, ...]:
    """List the fields of records in the list of collection `name`.

    `is_full`: with the fields that only the record's own path returns.
    """
    if "fields" in COLLECTIONS.get(name, {}):
        return tuple(COLLECTIONS[name]["fields"])
    fields = catalogue.get_resource(name).fields
    return tuple(field.name for field in fields if is_full or not field.item_only)


def make_record(collection: str, /, *, is_full: bool = False, **values: Any) -> Record:
    """Create a record of `collection` with `values`.

    Other fields have the default of the collection, or a value by type and meaning; records share it, since
    writes replace values. `is_full` is as for `list_fields`.
    """
    return _make_template(collection, is_full) | values


@functools.cache
def _make_template(collection: str, is_full: bool) -> Record:
    names = list_fields(collection, is_full=is_full)
    fields: dict[str, Field] = {}
    if collection in catalogue.COLLECTIONS:
        resource = catalogue.get_resource(collection)
        fields = {field.name: field for field in resource.fields}
        # Lists of related records are only in the forms of own paths and `include`.
        lists = {relation.name for relation in resource.relations if relation.is_list}
        names = tuple(name for name in names if name not in lists)
    defaults = _VALUES_BY_NAME | COLLECTIONS.get(collection, {}).get("defaults", {})
    return {name: defaults[name] if name in defaults else _make_value(fields.get(name)) for name in names}


def _make_value(field: Field | None) -> Any:
    if field is None:
        return None
    if field.codes:
        return field.codes[0]
    if field.meaning == "seconds":
        return "20" if field.actual_type == "string" else 20
    return {"boolean": False, "array": []}.get(field.actual_type)


def copy_attributes(source: object, names: str) -> Record:
    """Return attributes of `source` by name; `names` is a space-separated list."""
    return {name: getattr(source, name) for name in names.split()}


def apply_fields(record: Record, fields: Record) -> None:
    """Set the fields of a validated body; ignore fields unknown to `record`."""
    for name, value in fields.items():
        record_field = name if name in record else _RECORD_FIELD_NAMES.get(name, name)
        if record_field in record:
            record[record_field] = value
