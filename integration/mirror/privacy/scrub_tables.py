"""Remove a number from any table, independent of its columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

from integration.core.number_variants import ERASED, Finder
from integration.mirror.privacy.erasure_gate import remove_number
from integration.mirror.records.rows import quote_identifier
from integration.sqlite.schema import open_schema
from integration.sqlite.transaction import Transaction


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


def find_matching_rows(
    connection: sqlite3.Connection, table: str, finder: Finder[Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the rows that contain the number, as (key, matching columns)."""
    described = open_schema(connection).table(table)
    # Unquoted, because in a table without rowid SQLite would treat "rowid" as a text.
    keys = ["rowid"] if described.use_rowid else [quote_identifier(name) for name in described.pks]
    columns = list(described.columns_dict)
    for row in connection.execute(
        f"SELECT {', '.join((*keys, *map(quote_identifier, columns)))} FROM {quote_identifier(table)}"
    ):
        values = row[len(keys) :]
        matching = {
            column: value
            for column, value in zip(columns, values, strict=True)
            if (text := _to_text(value)) is not None and finder.contains_number(text)
        }
        if matching:
            yield dict(zip(keys, row[: len(keys)], strict=True)), matching


def scrub_table(
    tx: Transaction, table: str, finder: Finder[Any], erased_columns: Collection[str] = ()
) -> int:
    """Remove the number from all rows of a table.

    Returns how many rows contained the number. A row with the number in its key is deleted. A value in a
    column of `erased_columns` becomes `erased` completely.
    """
    rows = list(find_matching_rows(tx.connection, table, finder))
    for key, matching in rows:
        where = " AND ".join(f"{name} IS ?" for name in key)
        if any(quote_identifier(column) in key for column in matching):
            tx.execute(f"DELETE FROM {quote_identifier(table)} WHERE {where}", tuple(key.values()))
            continue
        new_values = {
            column: ERASED
            if column in erased_columns
            else _same_type(value, remove_number(_to_text(value) or "", finder))
            for column, value in matching.items()
        }
        assignments = ", ".join(f"{quote_identifier(column)} = ?" for column in new_values)
        # Rows that become equal violate unique keys. OR REPLACE keeps one of them.
        tx.execute(
            f"UPDATE OR REPLACE {quote_identifier(table)} SET {assignments} WHERE {where}",
            (*new_values.values(), *key.values()),
        )
    return len(rows)


def _to_text(value: object) -> str | None:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, int):
        return str(value) if abs(value) > 10**10 else None
    return value if isinstance(value, str) else None


def _same_type(value: object, text: str) -> object:
    return text.encode() if isinstance(value, bytes) else text
