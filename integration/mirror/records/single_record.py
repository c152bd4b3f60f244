"""Single records of a collection as other rooms read and mark them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from integration.catalogue.shapes import Resource
from integration.sqlite.transaction import Transaction

Key = int | str


@dataclass(frozen=True, slots=True)
class Stored:
    """A mirrored record: `doc` as its collection lists it, `item` as its own path answers (None until read),
    `seen` UTC text, `missing` whether it is no longer on the platform."""

    doc: str
    item: str | None
    seen: str
    missing: bool


def stored(
    connection: sqlite3.Connection, resource: Resource, key: Key, *, by: str | None = None
) -> Stored | None:
    """The record whose key (or catalogue field `by`) is `key`; of several a present one, the oldest."""
    name = by or resource.key
    if name is None or resource.field(name) is None:
        raise ValueError(f"{resource.name} has no field {name!r}")
    row = connection.execute(
        f'SELECT _doc, _item, _last_seen, _missing_since FROM "{resource.table}" WHERE "{name}" IN (?, ?)'
        f' ORDER BY _missing_since IS NOT NULL, "{resource.key or name}" LIMIT 1',
        (key, str(key)),
    ).fetchone()
    if row is None:
        return None
    return Stored(row["_doc"], row["_item"], row["_last_seen"], row["_missing_since"] is not None)


@dataclass(frozen=True, slots=True)
class Standing:
    """`complete`: the collection was once walked to its end. `read_at`: when it was last brought up to date,
    UTC text."""

    complete: bool
    read_at: str | None


def standing(connection: sqlite3.Connection, resource: Resource) -> Standing:
    """What an answer from the mirror may claim. `walks.state_of` would count the rows each time."""
    row = connection.execute(
        "SELECT complete_at, last_success_at FROM _walks WHERE collection = ?", (resource.collection,)
    ).fetchone()
    return Standing(False, None) if row is None else Standing(row[0] is not None, row[1])


def objects(
    connection: sqlite3.Connection, resource: Resource, keys: Collection[Any]
) -> dict[str, dict[str, Any]]:
    """The present records among `keys`, parsed, by their key as text."""
    rows = connection.execute(
        f'SELECT "{resource.key}", _doc FROM "{resource.table}" WHERE _missing_since IS NULL'
        f' AND "{resource.key}" IN (SELECT value FROM json_each(?))',
        (json.dumps(list(keys)),),
    )
    return {str(row[0]): json.loads(row[1]) for row in rows}


def is_empty(connection: sqlite3.Connection, resource: Resource) -> bool:
    return connection.execute(f'SELECT 1 FROM "{resource.table}" LIMIT 1').fetchone() is None


def newest(connection: sqlite3.Connection, resource: Resource) -> dict[str, Any] | None:
    """The newest record that a list of the platform showed, parsed."""
    row = connection.execute(
        f"SELECT _doc FROM \"{resource.table}\" WHERE _missing_since IS NULL AND _source IN ('sync', 'read')"
        f' ORDER BY "{resource.key}" DESC LIMIT 1'
    ).fetchone()
    return None if row is None else json.loads(row[0])


def mark_missing(tx: Transaction, resource: Resource, keys: Collection[Key], at: str) -> None:
    """What the platform had deleted at our request by `at` (UTC text): hidden from the facade, kept in the
    table. A page that was asked for by then may list it still, and does not bring it back."""
    tx.execute(
        f'UPDATE "{resource.table}" SET _missing_since = ? WHERE _missing_since IS NULL'
        f' AND "{resource.key}" IN (SELECT value FROM json_each(?))',
        (at, json.dumps(list(keys))),
    )


def mark_all_missing(tx: Transaction, resource: Resource, at: str) -> None:
    tx.execute(f'UPDATE "{resource.table}" SET _missing_since = ? WHERE _missing_since IS NULL', (at,))
