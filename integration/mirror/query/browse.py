"""Browse any collection of the mirror: its state, records and references."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from integration.catalogue.field_meanings import is_secret
from integration.catalogue.shapes import Relation, Resource
from integration.core.ids import as_id
from integration.core.json_records import read_record
from integration.mirror.query.filter_sql import list_indexes
from integration.mirror.query.query import Query
from integration.mirror.records.rows import Key, get_key_type
from integration.mirror.sync_state.collection_state import State, get_state

SAMPLE_SIZE = 200
"""Number of newest records read by `sample_fields`."""
MAX_VALUES = 20
"""Values that `list_values` returns."""
MAX_SCAN_ROWS = 20_000
"""Largest number of records that a page scans without an index."""


@dataclass(frozen=True, slots=True)
class CollectionState:
    """State of a collection in the mirror.

    `rows`: number of present records. `missing`: number of stored records that are no longer on the platform.
    """

    sync: State
    rows: int
    missing: int

    @property
    def is_mirrored(self) -> bool:
        """Return whether the collection was ever read, even partly."""
        return bool(self.sync.last_success_at or self.sync.begun_at or self.rows or self.missing)


def get_collection_state(connection: sqlite3.Connection, restriction: Query) -> CollectionState:
    """Return the state of a collection, with the counts of the matches of `restriction`."""
    rows = restriction.count_matches(connection)
    missing = replace(restriction, include_missing=True).count_matches(connection) - rows
    return CollectionState(get_state(connection, restriction.resource.collection), rows, missing)


@dataclass(frozen=True, slots=True)
class FieldSample:
    """Fields of the newest records of a collection.

    `undocumented`: undocumented fields of list forms in the order of the records, without secrets.
    `undocumented_in_items`: those that only the records' own paths return. `filled_fields`: fields with a
    value in at least one list form; null, empty texts, lists and objects do not count.
    """

    undocumented: tuple[str, ...]
    undocumented_in_items: tuple[str, ...]
    filled_fields: frozenset[str]


def sample_fields(connection: sqlite3.Connection, resource: Resource) -> FieldSample:
    """Return the fields of the SAMPLE_SIZE newest records."""
    key = f'"{resource.key}"' if resource.key else "_n"
    rows = connection.execute(
        f'SELECT _doc, _item FROM "{resource.table}" ORDER BY {key} DESC LIMIT ?', (SAMPLE_SIZE,)
    ).fetchall()
    listed, in_items = dict[str, None](), dict[str, None]()
    filled_fields = set()
    for row in rows:
        for name, value in read_record(row["_doc"]).values.items():
            listed[name] = None
            if value is not None and value not in ("", [], {}):
                filled_fields.add(name)
        if row["_item"] is not None:
            in_items |= dict.fromkeys(read_record(row["_item"]).values)
    return FieldSample(
        tuple(name for name in listed if resource.field(name) is None and not is_secret(name)),
        tuple(
            name
            for name in in_items
            if name not in listed and resource.field(name) is None and not is_secret(name)
        ),
        frozenset(filled_fields),
    )


def list_values(connection: sqlite3.Connection, resource: Resource, field_name: str) -> list[str]:
    """Return values of a field in the newest present records.

    They are texts, at most MAX_VALUES. Raises ValueError if there is no such field.
    """
    if resource.field(field_name) is None:
        raise ValueError(f"{resource.name} has no field {field_name!r}")
    rows = connection.execute(
        f'SELECT DISTINCT "{field_name}" FROM (SELECT "{field_name}" FROM "{resource.table}"'
        " WHERE _missing_since IS NULL ORDER BY rowid DESC LIMIT ?)"
        f" WHERE \"{field_name}\" <> '' LIMIT ?",
        (SAMPLE_SIZE, MAX_VALUES),
    ).fetchall()
    return sorted(str(row[0]) for row in rows)


# --- records and their references --------------------------------------------------------------------


def parse_key(resource: Resource, text: str) -> Key | None:
    """Return the key in the URL segment `text`, or None.

    None if no record of `resource` can have such a key.
    """
    if resource.key is not None and get_key_type(resource) == "TEXT":
        return text
    return as_id(text)


def get_row_key(resource: Resource, row: sqlite3.Row) -> Key:
    """Return a row's key, or its position `_n` if records have none."""
    key: Key = row[resource.key or "_n"]
    return key


def find_record(connection: sqlite3.Connection, resource: Resource, key: Key) -> sqlite3.Row | None:
    """Return the row of a present or missing record, or None.

    In collections without keys `key` is `_n`, the position in the response of the platform.
    """
    key_column = f'"{resource.key}"' if resource.key else "_n"
    row: sqlite3.Row | None = connection.execute(
        f'SELECT * FROM "{resource.table}" WHERE {key_column} = ?', (key,)
    ).fetchone()
    return row


def find_single_record(connection: sqlite3.Connection, resource: Resource) -> sqlite3.Row | None:
    """Return the row last seen, for collections of one record."""
    row: sqlite3.Row | None = connection.execute(
        f'SELECT * FROM "{resource.table}" ORDER BY _last_seen DESC LIMIT 1'
    ).fetchone()
    return row


def find_referring(
    connection: sqlite3.Connection, group_resource: Resource, relation: Relation, values: Collection[str]
) -> list[tuple[Key, dict[str, Any]]]:
    """Return the present records that refer to one of `values` by `relation`.

    An example is the queues (`group_resource`) of a user. The result has key and parsed record of each.
    """
    referring = []
    for row in connection.execute(
        f'SELECT "{group_resource.key}" AS key, _doc, _item FROM "{group_resource.table}"'
        " WHERE _missing_since IS NULL"
        f' ORDER BY "{group_resource.key}"'
    ):
        fields = read_record(row["_doc"]).values
        merged = {**fields, **(read_record(row["_item"]).values if row["_item"] else {})}
        if any(reference in values for reference in extract_ids(merged.get(relation.name))):
            referring.append((row["key"], fields))
    return referring


def is_fast_lookup(connection: sqlite3.Connection, resource: Resource, name: str) -> bool:
    """Return whether a page request can search records by field `name`.

    True if an index starts with the field, or if the collection has at most MAX_SCAN_ROWS records.
    """
    has_index = any(
        not is_partial and columns[0] == name for is_partial, columns in list_indexes(connection, resource)
    )
    return has_index or Query(resource).count_matches(connection) <= MAX_SCAN_ROWS


def extract_ids(value: Any) -> list[str]:
    """Return the ids in the value of a relation, as text.

    The value is an id, an object with `id` or `e164`, or a list of these.
    """
    items = value if isinstance(value, list) else [value]
    ids = (item.get("id", item.get("e164")) if isinstance(item, dict) else item for item in items)
    return [
        str(item_id)
        for item_id in ids
        if isinstance(item_id, int | str) and not isinstance(item_id, bool) and item_id != ""
    ]
