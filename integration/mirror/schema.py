"""mirror.db: a table for every collection of the catalogue, and our own tables beside them.

Collection tables are STRICT with columns of type ANY, which keeps every value as it came: with inference or
INTEGER affinity `+442079460001` becomes a number and loses its plus (design.md §4). sqlite-utils can open
and query all of them; it has no word for ANY, and asks the whole schema anew for each table, so the tables
are created by plain SQL.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.mirror.calls import backlog
from integration.mirror.calls import schema as call_schema
from integration.mirror.page_queries import history, media_lists, messages, report_rollups
from integration.mirror.query import query
from integration.mirror.records import (
    collection_versions,
    indexes,
    missing_records,
    promoted_fields,
    response_cache,
    schema_drift,
    subresources,
)
from integration.mirror.records.rows import get_key_type, quote_identifier
from integration.mirror.sync_state import (
    collection_state,
    completeness,
    lookup_queue,
    media_files,
    pending_deletions,
)
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import Step, run_script
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

OWN_TABLES = (
    CORE_TABLES,
    call_schema.TABLES,
    backlog.TABLES,
    lookup_queue.TABLES,
    media_files.TABLES,
    collection_state.TABLES,
    missing_records.TABLES,
    completeness.TABLES,
    schema_drift.TABLES,
    subresources.TABLES,
    history.TABLES,
    messages.TABLES,
    pending_deletions.TABLES,
    response_cache.TABLES,
    media_lists.TABLES,
    indexes.INDEXES,
    collection_versions.TABLES,
    report_rollups.TABLES,
)

MIGRATIONS: Mapping[str, Step] = {
    "walks tell more": collection_state.add_columns,
    "triggers of calls without conflict clauses": call_schema.drop_triggers,
}
"""In order, by name. mirror.db can be rebuilt, so a step may also just empty a derived table."""

BOOKKEEPING = (
    "_doc TEXT NOT NULL, _item TEXT, _first_seen TEXT NOT NULL, _last_seen TEXT NOT NULL, "
    "_source TEXT NOT NULL, _missing_since TEXT"
)


def list_mirrored_resources() -> list[Resource]:
    """The collections that have a table: those that a GET without parameters lists, and `/me`."""
    return [resource for resource in RESOURCES if resource.is_listed]


def open_mirror(
    path: Path,
    *,
    on_commit: Callable[[list[Change]], None] | None = None,
    on_broken: Callable[[BaseException], None] | None = None,
) -> Database:
    """Open (create, bring up to date) mirror.db. Raises StorageError, NewerDatabase."""
    return Database(
        path, prepare=prepare, register_functions=query.register, on_commit=on_commit, on_broken=on_broken
    )


def prepare(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version's form. Raises NewerDatabase."""
    migrations.migrate(connection, "mirror.db", MIGRATIONS, _create_all)


def _create_all(connection: sqlite3.Connection) -> None:
    columns_by_table = _list_columns(connection)
    for resource in list_mirrored_resources():
        _create_or_extend_table(connection, resource, columns_by_table.get(resource.table))
    for script in OWN_TABLES:
        run_script(connection, script)
    connection.execute("INSERT OR IGNORE INTO _meta VALUES ('epoch', ?)", (secrets.token_hex(8),))


def get_epoch(connection: sqlite3.Connection) -> str:
    """What tells this mirror.db's change numbers from those of one rebuilt later."""
    return str(connection.execute("SELECT value FROM _meta WHERE key = 'epoch'").fetchone()[0])


def _list_columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of every table that there is."""
    columns_by_table: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    ):
        columns_by_table.setdefault(table, set()).add(column)
    return columns_by_table


def _create_or_extend_table(
    connection: sqlite3.Connection, resource: Resource, existing_columns: set[str] | None
) -> None:
    """The table of `resource`; a field that the catalogue has learnt since becomes a new column."""
    if existing_columns is None:
        columns = [_build_key_column(resource)]
        columns += [
            f"{quote_identifier(field.name)} ANY" for field in resource.fields if field.name != resource.key
        ]
        connection.execute(
            f"CREATE TABLE {quote_identifier(resource.table)} ({', '.join(columns)}, {BOOKKEEPING}) STRICT"
        )
        return
    for field in resource.fields:
        if field.name not in existing_columns:
            promoted_fields.add_documented_column(connection, resource, field.name)


def _build_key_column(resource: Resource) -> str:
    if resource.key is None:
        return "_n INTEGER PRIMARY KEY"
    return f"{quote_identifier(resource.key)} {get_key_type(resource)} PRIMARY KEY NOT NULL"
