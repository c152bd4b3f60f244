"""Remove a number from any table, independent of its columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from integration.core.number_variants import ERASED, Finder
from integration.mirror.privacy.erasure_gate import remove_number
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.records.rows import quote_identifier
from integration.sqlite.schema import open_schema
from integration.sqlite.transaction import Transaction

_MAX_OTHER_NUMBER = 10**10
"""Largest integer that is an id or a time, not a telephone number."""


def list_tables(connection: sqlite3.Connection) -> list[str]:
    """Return all tables except SQLite's own and those of search indexes."""
    tables = open_schema(connection).tables
    virtual = [table.name for table in tables if table.virtual_table_using is not None]
    return sorted(
        table.name
        for table in tables
        if not table.name.startswith("sqlite_")
        and not any(table.name == name or table.name.startswith(f"{name}_") for name in virtual)
    )


@dataclass(frozen=True, slots=True)
class TableRow:
    """Row of any table.

    `key`: the columns that identify it. `values`: all columns.
    """

    key: dict[str, Any]
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MatchingRow:
    """Row that contains the number.

    `key`: columns that identify it. `values`: the columns with the number. `is_held`: the row is under legal
    hold and must not be changed.
    """

    key: dict[str, Any]
    values: dict[str, Any]
    is_held: bool


def iterate_rows(connection: sqlite3.Connection, table: str) -> Iterator[TableRow]:
    """Yield all rows of a table."""
    # Each reading of the columns also lists all tables, so they are read once.
    described = open_schema(connection).table(table).columns
    columns = [column.name for column in described]
    # Unquoted, because in a table without rowid SQLite would treat "rowid" as a text.
    key_columns = sorted((column for column in described if column.is_pk), key=lambda column: column.is_pk)
    keys = [quote_identifier(column.name) for column in key_columns] or ["rowid"]
    for row in connection.execute(
        f"SELECT {', '.join((*keys, *map(quote_identifier, columns)))} FROM {quote_identifier(table)}"
    ):
        yield TableRow(
            dict(zip(keys, row[: len(keys)], strict=True)), dict(zip(columns, row[len(keys) :], strict=True))
        )


def find_matching_rows(
    connection: sqlite3.Connection, table: str, finder: Finder[Any], held_records: HeldRecords
) -> Iterator[MatchingRow]:
    """Return the rows that contain the number."""
    for row in iterate_rows(connection, table):
        matching = {column: value for column, value in row.values.items() if _contains_number(value, finder)}
        if matching:
            is_held = is_row_held(connection, table, row.values, held_records)
            yield MatchingRow(row.key, matching, is_held)


def is_row_held(
    connection: sqlite3.Connection, table: str, values: dict[str, Any], held_records: HeldRecords
) -> bool:
    """Return whether a row or its parent record is under legal hold."""
    return held_records.are_values_held(values) or (
        table == "_below"
        and held_records.is_row_held(connection, values["collection"].replace("/", "_"), values["key"])
    )


def scrub_table(
    tx: Transaction,
    table: str,
    finder: Finder[Any],
    held_records: HeldRecords,
    *,
    erased_columns: Collection[str] = (),
    deletes_rows: bool = False,
) -> None:
    """Remove the number from the rows of a table, except held ones.

    A row with the number in its key is deleted; with `deletes_rows` every row with the number. A value in a
    column of `erased_columns` becomes `erased` completely.
    """
    rows = [row for row in find_matching_rows(tx.connection, table, finder, held_records) if not row.is_held]
    for row in rows:
        where = " AND ".join(f"{name} IS ?" for name in row.key)
        if deletes_rows or any(quote_identifier(column) in row.key for column in row.values):
            tx.execute(f"DELETE FROM {quote_identifier(table)} WHERE {where}", tuple(row.key.values()))
            continue
        new_values = {
            column: ERASED if column in erased_columns else _remove_number(value, finder)
            for column, value in row.values.items()
        }
        assignments = ", ".join(f"{quote_identifier(column)} = ?" for column in new_values)
        # Rows that become equal violate unique keys. OR REPLACE keeps one of them.
        tx.execute(
            f"UPDATE OR REPLACE {quote_identifier(table)} SET {assignments} WHERE {where}",
            (*new_values.values(), *row.key.values()),
        )


def _contains_number(value: object, finder: Finder[Any]) -> bool:
    if isinstance(value, bytes):
        return finder.contains_number_in_bytes(value)
    if isinstance(value, int):
        return abs(value) > _MAX_OTHER_NUMBER and finder.contains_number(str(value))
    return isinstance(value, str) and finder.contains_number(value)


def _remove_number(value: object, finder: Finder[Any]) -> object:
    if not isinstance(value, bytes):
        return remove_number(str(value), finder)
    try:
        return remove_number(value.decode(), finder).encode()
    except UnicodeDecodeError:
        return finder.replace_numbers_in_bytes(value, ERASED)
