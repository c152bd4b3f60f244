"""Read single records of a collection and mark them as missing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.ids import as_id, id_list
from integration.mirror.records.rows import Key, get_key_type
from integration.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A mirrored record.

    `doc`: as its collection lists it. `item`: as its own path returns it, if that adds fields (None until
    read). `last_seen`: UTC text. `is_missing`: the record is no longer on the platform. `item_read_at`: last
    read of its own path (UTC text; None if never read). `item_adds_fields`: whether that read added fields;
    None if not known. `links`: what the platform sent with it (JSON object; None without any).
    """

    doc: str
    item: str | None
    last_seen: str
    is_missing: bool
    item_read_at: str | None
    item_adds_fields: bool | None
    links: str | None


def find_record(
    connection: sqlite3.Connection, resource: Resource, key: Key, *, key_field: str | None = None
) -> StoredRecord | None:
    """Return the record with the key `key`, or None.

    With `key_field`, that documented field is compared instead of the key, with and without a plus. Of
    several records the present one with the lowest key. Raises ValueError if `resource` has no such field.
    """
    field_name = key_field or resource.key
    if field_name is None or resource.field(field_name) is None:
        raise ValueError(f"{resource.name} has no field {field_name!r}")
    table, key_column = f'"{resource.table}"', f'"{resource.key or field_name}"'
    row = connection.execute(
        f"SELECT _doc, _item, _last_seen, _missing_since, forms.read_at AS item_read_at, forms.adds_fields,"
        f" forms.links"
        f" FROM {table} LEFT JOIN _item_forms AS forms"
        # The plus removes the column's affinity, without which the primary key of `forms` cannot be used.
        f" ON forms.table_name = ? AND forms.key = +{table}.{key_column}"
        f' WHERE {table}."{field_name}" IN (?, ?, ?)'
        f" ORDER BY _missing_since IS NOT NULL, {table}.{key_column} LIMIT 1",
        (resource.table, key, str(key), f"+{key}" if key_field else key),
    ).fetchone()
    if row is None:
        return None
    return StoredRecord(
        row["_doc"],
        row["_item"],
        row["_last_seen"],
        row["_missing_since"] is not None,
        row["item_read_at"],
        None if row["adds_fields"] is None else bool(row["adds_fields"]),
        row["links"],
    )


def fetch_by_key(
    connection: sqlite3.Connection,
    resource: Resource,
    keys: Collection[Any],
    *,
    key_field: str | None = None,
    include_missing: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the present records with these keys, parsed, by key as text.

    With `key_field`, that documented field is compared instead of the key. Numbers and their texts are equal.
    With `include_missing` also missing records, unless a present one has the same value.
    """
    field_name = key_field or resource.key
    candidates = {*keys, *map(str, keys), *(number for key in keys if (number := as_id(key)) is not None)}
    rows = connection.execute(
        f'SELECT "{field_name}", _doc FROM "{resource.table}" WHERE (? OR _missing_since IS NULL)'
        f' AND "{field_name}" IN (SELECT value FROM json_each(?)) ORDER BY _missing_since IS NULL',
        (include_missing, id_list(candidates)),
    )
    return {str(row[0]): json.loads(row[1]) for row in rows}


def is_empty(connection: sqlite3.Connection, resource: Resource) -> bool:
    """Return whether the table of `resource` has no rows, missing ones included."""
    return connection.execute(f'SELECT 1 FROM "{resource.table}" LIMIT 1').fetchone() is None


def is_above_highest(connection: sqlite3.Connection, resource: Resource, key: Key) -> bool:
    """Return whether `key` is an integer above all stored keys.

    The collection may have grown since its last sync. False for collections with text keys.
    """
    if resource.key is None or get_key_type(resource) != "INTEGER" or not isinstance(key, int):
        return False
    row = connection.execute(f'SELECT max("{resource.key}") FROM "{resource.table}"').fetchone()
    return row[0] is None or key > row[0]


def find_newest(connection: sqlite3.Connection, resource: Resource) -> dict[str, Any] | None:
    """Return the newest present record, parsed, among those read from lists.

    These are the records whose `_source` is sync or read.
    """
    row = connection.execute(
        f"SELECT _doc FROM \"{resource.table}\" WHERE _missing_since IS NULL AND _source IN ('sync', 'read')"
        f' ORDER BY "{resource.key}" DESC LIMIT 1'
    ).fetchone()
    return None if row is None else json.loads(row[0])


def mark_missing(tx: Transaction, resource: Resource, keys: Collection[Key], deleted_at: str) -> list[Key]:
    """Mark records as missing that a write deleted by `deleted_at` (UTC text).

    Returns their keys.

    The rows stay in the table; the facade omits them. Pages requested until `deleted_at` can still list
    these records, but do not restore them.
    """
    rows = tx.execute(
        f'UPDATE "{resource.table}" SET _missing_since = ? WHERE _missing_since IS NULL'
        f' AND "{resource.key}" IN (SELECT value FROM json_each(?)) RETURNING "{resource.key}"',
        (deleted_at, id_list(keys)),
    )
    return [row[0] for row in rows]
