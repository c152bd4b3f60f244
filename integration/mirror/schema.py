"""Schema of mirror.db: one table per collection, internal tables, and views.

Collection tables are STRICT, with columns of type ANY for the fields of the catalogue. Internal tables
are SQL scripts, because they need WITHOUT ROWID, CHECK and UNIQUE, for which sqlite-utils has no
parameters.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from integration.catalogue import RESOURCES
from integration.catalogue.shapes import Resource
from integration.core import clock
from integration.mirror import zone_offsets
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
from integration.mirror.records.rows import get_key_type, quote_identifier
from integration.mirror.sync_state import (
    collection_state,
    completeness,
    lookup_queue,
    media_files,
    pending_deletions,
)
from integration.sqlite import damage, migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import Step
from integration.sqlite.schema import ANY, Schema, execute_script, read_columns
from integration.sqlite.transaction import Change

log = logging.getLogger(__name__)

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


def drop_promoted_columns(schema: Schema) -> None:
    """Migration: drop the columns that users added for undocumented fields, with their indexes."""
    dropped = []
    columns_by_table = read_columns(schema)
    for resource in list_mirrored_resources():
        prefix = f"{resource.table}_promoted_"
        for (index,) in schema.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND instr(name, ?) = 1", (prefix,)
        ).fetchall():
            schema.execute(f"DROP INDEX {quote_identifier(index)}")
        kept = {field.name for field in resource.fields} | BOOKKEEPING.keys() | {"_n"}
        for column in sorted(columns_by_table.get(resource.table, set()) - kept):
            schema.execute(
                f"ALTER TABLE {quote_identifier(resource.table)} DROP COLUMN {quote_identifier(column)}"
            )
            dropped.append(f"{resource.table}.{column}")
    if dropped:
        log.warning(
            "the columns of promoted fields are dropped: %s; filters, column sets and schedules read these"
            " fields from the records",
            ", ".join(dropped),
        )


def drop_month_counts(schema: Schema) -> None:
    """Migration: drop the counts of CDRs by month of an earlier version."""
    for name in ("delete", "update"):
        schema.execute(f"DROP TRIGGER IF EXISTS cdrs_counted_{name}")
    for table in ("_cdr_months", "_cdr_user_months"):
        schema.execute(f"DROP TABLE IF EXISTS {table}")


def drop_versions(schema: Schema) -> None:
    """Migration: drop the versions of growing collections of an earlier version."""
    for table in record_order.ORDERED_TABLES:
        for name in ("inserted", "deleted", "changed", "updated"):
            schema.execute(f"DROP TRIGGER IF EXISTS {table}_{name}")
    schema.execute("DROP TABLE IF EXISTS _versions")


def _do_nothing(_schema: Schema) -> None:
    """Step of an earlier version that a later one replaces."""


MIGRATIONS: Mapping[str, Step] = {
    "walks tell more": collection_state.add_columns,
    "triggers of calls without conflict clauses": _do_nothing,
    "item forms that add fields": item_forms.remove_outdated_items,
    "notes in the search index": _do_nothing,
    "links of item forms": item_forms.add_links,
    "counts of CDRs by month": drop_month_counts,
    "triggers of calls with legs and causes": _do_nothing,
    "deleted transcripts in the search index": _do_nothing,
    "forms of lists without ids": collection_state.add_form,
    "calls of parties without a number": _do_nothing,
    "calls dated 1970": _do_nothing,
    "times of different counts": completeness.add_difference_time,
    "columns of promoted fields": drop_promoted_columns,
    "no counts of CDRs by month": drop_month_counts,
    "no versions of collections": drop_versions,
    "derived tables by declarations": due.drop_former_tables,
    "no index of changed calls": call_schema.drop_change_index,
    "no unread columns of legs": call_schema.drop_unread_columns,
    "due calls by declarations": due.drop_call_backlog,
    "one index of callers and groups": call_schema.drop_divided_index,
    "calls of the past": call_schema.add_past_column,
}
"""Migration steps by name, in order.

mirror.db can be rebuilt, so a step may also empty a derived table.
"""

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
    migrations.migrate(connection, "mirror.db", MIGRATIONS, _create_all)


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
