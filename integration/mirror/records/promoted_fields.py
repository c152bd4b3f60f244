"""Fields that nobody documented, made columns of their collection's table.

Every column of a collection's table that is neither the catalogue's nor bookkeeping is such a field. The one
door for rows fills it (upsert.py); what was there before is filled from `_doc`, slice by slice, so that no
webhook waits. A column that SQLite would generate from `_doc` is rejected: with `trusted_schema` off, which
keeps what others write into the file from running here, it may not use the JSON functions.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection

from integration.catalogue.shapes import Resource
from integration.core.errors import QueryError
from integration.core.json_records import read_record, to_column_value
from integration.sqlite.database import Database
from integration.sqlite.schema import ANY, Schema, open_schema
from integration.sqlite.transaction import Transaction

BOOKKEEPING_COLUMNS = frozenset(
    {"_n", "_doc", "_item", "_first_seen", "_last_seen", "_source", "_missing_since"}
)
"""Bookkeeping columns of every collection's table."""

BATCH_SIZE = 2000
"""Records filled in one transaction."""

_COLUMN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def list_columns(connection: sqlite3.Connection | Transaction, resource: Resource) -> list[str]:
    """The fields of `resource` that were made columns."""
    declared_columns = {field.name for field in resource.fields} | BOOKKEEPING_COLUMNS
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
    return [row[0] for row in rows if row[0] not in declared_columns]


def list_ready_columns(connection: sqlite3.Connection | Transaction, resource: Resource) -> set[str]:
    """Those of them that hold every record's value, and are indexed."""
    prefix = _get_index_name(resource, "")
    rows = connection.execute("SELECT name FROM pragma_index_list(?)", (resource.table,))
    return {row[0].removeprefix(prefix) for row in rows if row[0].startswith(prefix)}


def find_refusal_reason(
    connection: sqlite3.Connection | Transaction, resource: Resource, name: str
) -> str | None:
    """Why the field can't be made a column; None where it can."""
    if not _COLUMN_NAME.fullmatch(name):
        return f"{name[:64]!r} can't be the name of a column"
    existing_rows = connection.execute("SELECT name FROM pragma_table_info(?)", (resource.table,))
    if name.lower() in {row[0].lower() for row in existing_rows}:
        return f"/{resource.collection} has a column {name!r} already"
    return None


def promote(
    mirror_db: Database,
    resource: Resource,
    name: str,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Make the field `name` a column, fill it and index it; `on_progress(done, total)` records. Raises
    QueryError where it can't be one. What is interrupted, or not wanted while `is_stopping`, is finished by
    `apply_requested_columns`."""

    def add_column(tx: Transaction) -> None:
        reason = find_refusal_reason(tx, resource, name)
        if reason is not None:
            raise QueryError(reason)
        open_schema(tx.connection).table(resource.table).add_column(name, ANY)

    mirror_db.write(add_column)
    _fill_and_index(mirror_db, resource, name, on_progress, is_stopping)


def demote(mirror_db: Database, resource: Resource, name: str) -> None:
    """Take the column away; the records keep the field. Nothing happens where there is none."""

    def drop_column(tx: Transaction) -> None:
        if name in list_columns(tx, resource):
            tx.execute(f'DROP INDEX IF EXISTS "{_get_index_name(resource, name)}"')
            tx.execute(f'ALTER TABLE "{resource.table}" DROP COLUMN "{name}"')

    mirror_db.write(drop_column)


def apply_requested_columns(
    mirror_db: Database,
    resource: Resource,
    requested: Collection[str],
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the columns of a table to those that are wanted, and finish what was interrupted, unless
    `is_stopping`. What can't be a column is left out."""
    with mirror_db.read() as connection:
        existing = list_columns(connection, resource)
        refused = {name for name in requested if find_refusal_reason(connection, resource, name) is not None}
        unfinished = set(existing) - list_ready_columns(connection, resource)
    for name in set(existing).difference(requested):
        demote(mirror_db, resource, name)
    for name in unfinished.intersection(requested):
        _fill_and_index(mirror_db, resource, name, is_stopping=is_stopping)
    for name in sorted(set(requested) - refused):
        promote(mirror_db, resource, name, is_stopping=is_stopping)


def add_documented_column(schema: Schema, resource: Resource, name: str) -> None:
    """The catalogue has learnt a field since: a column, filled for the records there are."""
    schema.table(resource.table).add_column(name, ANY)
    schema.execute(
        f'UPDATE "{resource.table}" SET "{name}" = json_extract(_doc, ?) '
        "WHERE instr(_doc, ?) > 0 AND json_valid(_doc)",
        (f'$."{name}"', f'"{name}"'),
    )


def _fill_and_index(
    mirror_db: Database,
    resource: Resource,
    name: str,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Fill the column from the records; its index says that it is done."""
    with mirror_db.read() as connection:
        total, last_rowid = connection.execute(
            f'SELECT count(*), coalesce(max(rowid), 0) FROM "{resource.table}"'
        ).fetchone()
    done_count, filled_rowid = 0, None

    def fill_batch(tx: Transaction) -> tuple[int, int | None]:
        rows = tx.execute(
            f'SELECT rowid, _doc FROM "{resource.table}" WHERE (? IS NULL OR rowid > ?) AND rowid <= ? '
            "ORDER BY rowid LIMIT ?",
            (filled_rowid, filled_rowid, last_rowid, BATCH_SIZE),
        ).fetchall()
        updates = [(value, row[0]) for row in rows if (value := _extract_value(row[1], name)) is not None]
        tx.executemany(f'UPDATE "{resource.table}" SET "{name}" = ? WHERE rowid = ?', updates)
        return len(rows), rows[-1][0] if rows else None

    index = (
        f'CREATE INDEX IF NOT EXISTS "{_get_index_name(resource, name)}" ON "{resource.table}"'
        f' ("{name}", _missing_since)'
    )
    while not is_stopping():
        count, filled_rowid = mirror_db.write(fill_batch)
        if not count:
            mirror_db.write(lambda tx: tx.execute(index) and None)
            return
        done_count += count
        on_progress(done_count, total)


def _extract_value(doc: str, name: str) -> object:
    return to_column_value(read_record(doc).values.get(name)) if f'"{name}"' in doc else None


def _get_index_name(resource: Resource, name: str) -> str:
    return f"{resource.table}_promoted_{name}"
