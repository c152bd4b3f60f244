"""Schema of mirror.db: one table per collection, internal tables, and views.

Collection tables are STRICT, with columns of type ANY for the fields of the catalogue. Internal tables
are SQL scripts, because they need WITHOUT ROWID, CHECK and UNIQUE, for which sqlite-utils has no
parameters.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror import migrations, zone_offsets
from integration.mirror.calls import schema as call_schema
from integration.mirror.derived import contact_numbers, due, report_sums, search_index
from integration.mirror.derived.registry import DERIVED
from integration.mirror.page_queries import (
    history,
    media_lists,
    messages,
    platform_labels,
)
from integration.mirror.page_queries.missed_calls import IsOpen, register_hours
from integration.mirror.query import query
from integration.mirror.records import (
    indexes,
    item_forms,
    missing_records,
    record_order,
    response_cache,
    schema_drift,
    subresources,
)
from integration.mirror.records.rows import get_key_type
from integration.mirror.sync_state import (
    collection_state,
    completeness,
    lookup_queue,
    media_files,
    pending_deletions,
)
from integration.sqlite import damage
from integration.sqlite.database import Database
from integration.sqlite.migrations import migrate
from integration.sqlite.schema import ANY, Schema, execute_script, read_columns
from integration.sqlite.transaction import Change

CORE_TABLES = """
CREATE TABLE IF NOT EXISTS _meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS _changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL,
    topic TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS _applied (seq INTEGER PRIMARY KEY, result TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS _flagged (
    id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, at TEXT NOT NULL,
    reason TEXT NOT NULL, doc TEXT NOT NULL,
    UNIQUE (table_name, doc)
) STRICT;
"""

VIEWS = Path(__file__).with_name("views.sql").read_text("utf-8")
"""Script of the views for users' SQL. It replaces those of another version."""

INTERNAL_TABLES = (
    CORE_TABLES,
    call_schema.TABLES,
    lookup_queue.TABLES,
    media_files.TABLES,
    collection_state.TABLES,
    item_forms.TABLES,
    missing_records.TABLES,
    completeness.TABLES,
    schema_drift.TABLES,
    subresources.TABLES,
    due.TABLES,
    contact_numbers.TABLES,
    search_index.TABLES,
    history.TABLES,
    messages.TABLES,
    pending_deletions.TABLES,
    response_cache.TABLES,
    media_lists.TABLES,
    indexes.INDEXES,
    platform_labels.INDEX,
    record_order.TABLES,
    report_sums.TABLES,
    zone_offsets.TABLES,
    VIEWS,
)
"""SQL scripts of internal tables, indexes and views, in order of execution."""


BOOKKEEPING = {
    "_doc": str,
    "_item": str,
    "_first_seen": str,
    "_last_seen": str,
    "_source": str,
    "_missing_since": str,
}
"""Bookkeeping columns of every collection table."""
NULLABLE = frozenset({"_item", "_missing_since"})
"""Bookkeeping columns that can be NULL."""


def list_mirrored_resources() -> list[Resource]:
    """Return the resources with a table.

    These are the collections that a GET without parameters lists, and `/me`.
    """
    return [resource for resource in RESOURCES if resource.is_listed]


def open_mirror(
    path: Path,
    *,
    on_commit: Callable[[list[Change]], None] | None = None,
    on_broken: Callable[[BaseException], None] | None = None,
    on_damaged: Callable[[str], None] | None = None,
    is_open: IsOpen = lambda _line, _utc_text: True,
) -> Database:
    """Open mirror.db; create or migrate it first. Raises StorageError, NewerDatabase.

    A damaged file is put aside, and a new one created. `on_damaged(reason)`: see `damage.open_or_replace`.
    `is_open`: opening hours for queries.
    """

    def register_functions(connection: sqlite3.Connection) -> None:
        query.register(connection)
        register_hours(connection, is_open)

    return damage.open_or_replace(
        path,
        lambda handle_damage: Database(
            path,
            prepare=prepare,
            register_functions=register_functions,
            on_commit=on_commit,
            on_broken=on_broken,
            on_damaged=handle_damage,
        ),
        on_damaged,
    )


def prepare(connection: sqlite3.Connection) -> None:
    """Migrate the schema to this version. Raises NewerDatabase."""
    migrate(connection, "mirror.db", migrations.MIGRATIONS, _create_all)


def _create_all(schema: Schema) -> None:
    columns_by_table = read_columns(schema)
    for resource in list_mirrored_resources():
        if resource.table not in columns_by_table:
            _create_table(schema, resource)
            continue
        for field in resource.fields:
            if field.name not in columns_by_table[resource.table]:
                _add_column(schema, resource, field.name)
    for script in INTERNAL_TABLES:
        execute_script(schema, script)
    due.create_triggers(schema, DERIVED)
    schema.execute("INSERT OR IGNORE INTO _meta VALUES ('epoch', ?)", (secrets.token_hex(8),))
    schema.execute("INSERT OR IGNORE INTO _meta VALUES ('events since', ?)", (clock.utc_text(),))
    schema.execute(
        "INSERT OR IGNORE INTO _meta SELECT 'pruned', coalesce((SELECT min(id) - 1 FROM _changes),"
        " (SELECT seq FROM sqlite_sequence WHERE name = '_changes'), 0)"
    )


def _add_column(schema: Schema, resource: Resource, name: str) -> None:
    """Add the column of a newly documented field, and fill it from the stored records."""
    schema.table(resource.table).add_column(name, ANY)
    schema.execute(
        f'UPDATE "{resource.table}" SET "{name}" = json_extract(_doc, ?) '
        "WHERE instr(_doc, ?) > 0 AND json_valid(_doc)",
        (f'$."{name}"', f'"{name}"'),
    )


def _create_table(schema: Schema, resource: Resource) -> None:
    key = resource.key or "_n"
    columns = {
        key: get_key_type(resource),
        **{field.name: ANY for field in resource.fields if field.name != key},
        **BOOKKEEPING,
    }
    required = BOOKKEEPING.keys() - NULLABLE | {key for key in (resource.key,) if key is not None}
    schema.table(resource.table).create(columns, pk=key, not_null=required)
