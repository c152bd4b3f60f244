"""Table of one collection in SQLite, without the rest of the mirror."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from integration.catalogue.shapes import Resource
from integration.mirror.query import query
from integration.mirror.records import item_forms


def text_of(value: Any) -> str:
    """Return `value` as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def stored(value: Any) -> Any:
    """Return a JSON value as its column stores it."""
    if isinstance(value, bool):
        return int(value)
    return text_of(value) if isinstance(value, list | dict) else value


def collection_at(
    path: Path | str, resource: Resource, records: Iterable[dict[str, Any]] = ()
) -> sqlite3.Connection:
    """Create the table of `resource` with `records`. Returns the connection."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    query.register(connection)
    names = {field.name: None for field in resource.fields if field.name != resource.key}
    columns = ", ".join(f'"{name}" ANY' for name in names)
    connection.execute(
        f'CREATE TABLE "{resource.table}" ("{resource.key}" INTEGER PRIMARY KEY, {columns},'
        " _doc TEXT NOT NULL, _item TEXT, _first_seen TEXT, _last_seen TEXT, _source TEXT,"
        " _missing_since TEXT) STRICT"
    )
    connection.executescript(item_forms.TABLES)
    for record in records:
        insert(connection, resource, record)
    return connection


def insert(
    connection: sqlite3.Connection,
    resource: Resource,
    record: dict[str, Any],
    *,
    missing_since: str | None = None,
) -> None:
    names = [field.name for field in resource.fields if field.name in record]
    columns = ", ".join(f'"{name}"' for name in [*names, "_doc", "_missing_since"])
    marks = ", ".join("?" * (len(names) + 2))
    values = [*(stored(record[name]) for name in names), text_of(record), missing_since]
    connection.execute(f'INSERT INTO "{resource.table}" ({columns}) VALUES ({marks})', values)
