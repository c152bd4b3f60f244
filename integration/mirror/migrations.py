"""Migration steps of mirror.db (`sqlite/migrations`).

mirror.db can be rebuilt, so a step may also empty a derived table. Steps can be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from integration.catalogue import RESOURCES
from integration.core import clock
from integration.mirror.calls.schema import MERGED_CALLS
from integration.mirror.derived import due
from integration.mirror.records.rows import quote_identifier
from integration.sqlite.migrations import Step
from integration.sqlite.schema import Schema, execute_script, read_columns

log = logging.getLogger(__name__)

FORMER_TRIGGERS = (
    "cdrs_counted_*", "*_inserted", "*_deleted", "*_changed", "*_updated", "_*_search_*", "_calls_report_*"
)  # fmt: skip
"""Patterns of the names of triggers that earlier versions had."""

FORMER_TABLES = (
    "_cdr_months", "_cdr_user_months", "_versions", "_calls_search_due", "_report_due", "_report_basis"
)  # fmt: skip


def _do_nothing(_schema: Schema) -> None:
    """Step of an earlier version that a later one replaces."""


def _drop_former_tables(schema: Schema) -> None:
    """Drop tables and triggers of stored counts, and of what was due before `_due`."""
    for pattern in FORMER_TRIGGERS:
        rows = schema.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB ?", (pattern,)
        )
        for (name,) in rows.fetchall():
            schema.execute(f"DROP TRIGGER {quote_identifier(name)}")
    for table in FORMER_TABLES:
        schema.execute(f"DROP TABLE IF EXISTS {table}")
    schema.execute("DELETE FROM _meta WHERE key = 'reader of contacts'' numbers'")


def _drop_former_indexes(schema: Schema) -> None:
    for index in (
        "_calls_by_user", "_calls_change", "_calls_started", "_legs_key_started", "_legs_unanchored",
        "cdrs_labelled",
    ):  # fmt: skip
        schema.execute(f"DROP INDEX IF EXISTS {index}")


def _drop_call_backlog(schema: Schema) -> None:
    """Drop the table, column and triggers that recorded which calls are due before `_due`.

    All calls are due with the first rules of `CALLS`.
    """
    tables = schema.table_names()
    if "_legs_due" in tables:
        execute_script(schema, due.TABLES)
        schema.execute(
            "INSERT OR REPLACE INTO _due SELECT 'legs', min(leg_id), max(leg_id), ? FROM _legs_due"
            " HAVING count(*) > 0",
            (clock.unix(),),
        )
    for name in ("_contact_numbers_insert", "_contact_numbers_delete"):
        schema.execute(f"DROP TRIGGER IF EXISTS {name}")
    for table in ("_legs_due", "_call_directory"):
        schema.execute(f"DROP TABLE IF EXISTS {table}")
    if "_calls" in tables:
        schema.execute("DROP INDEX IF EXISTS _calls_due")
        schema.execute("ALTER TABLE _calls DROP COLUMN due_at")


def _drop_promoted_columns(schema: Schema) -> None:
    """Drop the columns that users added for undocumented fields, with their indexes."""
    dropped = []
    columns_by_table = read_columns(schema)
    for resource in RESOURCES:
        names = columns_by_table.get(resource.table, set()) - {field.name for field in resource.fields}
        promoted = sorted(name for name in names if not name.startswith("_"))
        for (index,) in schema.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND instr(name, ?) = 1",
            (f"{resource.table}_promoted_",),
        ).fetchall():
            schema.execute(f"DROP INDEX {quote_identifier(index)}")
        for column in promoted:
            _drop_column(schema, resource.table, column)
            dropped.append(f"{resource.table}.{column}")
    if dropped:
        log.warning(
            "the columns of promoted fields are dropped: %s; filters, column sets and schedules read these"
            " fields from the records",
            ", ".join(dropped),
        )


def _drop_unread_columns(schema: Schema) -> None:
    """Drop the columns of `_legs` that nothing reads."""
    unread = {"state_since", "missing", "ended_by", "src_id", "cdrs", "recordings", "origins"}
    for name in sorted(read_columns(schema).get("_legs", set()) & unread):
        _drop_column(schema, "_legs", name)


def _drop_call_ids(schema: Schema) -> None:
    """Drop the table of all ids. Keep those of calls that were merged before `_merged_calls` existed."""
    if "_call_ids" in schema.table_names():
        execute_script(schema, MERGED_CALLS)
        schema.execute(
            "INSERT OR IGNORE INTO _merged_calls SELECT id, call_id, 0 FROM _call_ids AS former"
            " WHERE id <> call_id AND id NOT IN (SELECT leg_id FROM _legs)"
            " AND NOT EXISTS (SELECT 1 FROM _legs WHERE root_id = former.id)"
        )
        schema.execute("DROP TABLE _call_ids")


def _drop_search_index(schema: Schema) -> None:
    """Drop the index that had the length of each text. It is due by its version."""
    schema.execute("DROP TABLE IF EXISTS _calls_search")


def _merge_checks(schema: Schema) -> None:
    """Move the checks of files into their rows of `media`."""
    _add_columns("media", "checked_at TEXT", "found_at TEXT", "finding TEXT")(schema)
    if "_checks" in schema.table_names():
        for name in ("media_read_insert", "media_read_update"):
            schema.execute(f"DROP TRIGGER IF EXISTS {name}")
        schema.execute("UPDATE media SET checked_at = updated_at WHERE state = 'have'")
        schema.execute(
            "UPDATE media SET checked_at = max(c.checked_at, updated_at), found_at = c.found_at,"
            " finding = c.finding FROM _checks AS c"
            " WHERE (c.kind, c.record_id) = (media.kind, media.record_id)"
        )
        schema.execute("DROP TABLE _checks")


def _drop_column(schema: Schema, table: str, name: str) -> None:
    schema.execute(f"ALTER TABLE {quote_identifier(table)} DROP COLUMN {quote_identifier(name)}")


def _add_columns(table: str, *columns: str) -> Step:
    """Return a step that adds columns ('name TYPE') to a table that lacks them."""

    def add(schema: Schema) -> None:
        existing = read_columns(schema).get(table)
        for column in columns:
            if existing is not None and column.split()[0] not in existing:
                schema.execute(f"ALTER TABLE {table} ADD COLUMN {column}")

    return add


def _remove_outdated_items(schema: Schema) -> None:
    """Clear `_item`. Version 0.1.0 kept the first response of a record's own path.

    Every record is then read once more.
    """
    columns_by_table = read_columns(schema)
    for resource in RESOURCES:
        if "_item" in columns_by_table.get(resource.table, ()):
            schema.execute(f"UPDATE {quote_identifier(resource.table)} SET _item = NULL")
    if "_walks" in columns_by_table:
        schema.execute("UPDATE _walks SET items_at = NULL")


MIGRATIONS: Mapping[str, Step] = {
    "walks tell more": _add_columns(
        "_walks", "walked_from TEXT", "reread_at TEXT", "off_since TEXT", "held INTEGER",
        "accepted INTEGER NOT NULL DEFAULT 0",
    ),
    "triggers of calls without conflict clauses": _do_nothing,
    "item forms that add fields": _remove_outdated_items,
    "notes in the search index": _do_nothing,
    "links of item forms": _add_columns("_item_forms", "links TEXT"),
    "counts of CDRs by month": _do_nothing,
    "triggers of calls with legs and causes": _do_nothing,
    "deleted transcripts in the search index": _do_nothing,
    "forms of lists without ids": _add_columns("_walks", "form TEXT"),
    "calls of parties without a number": _do_nothing,
    "calls dated 1970": _do_nothing,
    "times of different counts": _add_columns("_coverage", "differs_since TEXT"),
    "columns of promoted fields": _drop_promoted_columns,
    "no counts of CDRs by month": _do_nothing,
    "no versions of collections": _do_nothing,
    "derived tables by declarations": _drop_former_tables,
    "no index of changed calls": _do_nothing,
    "no unread columns of legs": _drop_unread_columns,
    "due calls by declarations": _drop_call_backlog,
    "one index of callers and groups": _do_nothing,
    "calls of the past": _add_columns("_calls", "is_past INTEGER NOT NULL DEFAULT 0"),
    "no table of ids of calls": _drop_call_ids,
    "checks of files in their rows": _merge_checks,
    "search index without lengths": _drop_search_index,
    "one index of calls by start": _drop_former_indexes,
}  # fmt: skip
"""Steps by name, in order. The next start of an older file runs those that it does not record."""
