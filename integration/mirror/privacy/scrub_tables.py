"""A number taken out of any table of a database, whatever its columns are."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any

from integration.core.number_variants import ERASED, Finder
from integration.mirror.privacy.erasure_gate import without
from integration.mirror.records.rows import quote
from integration.sqlite.transaction import Transaction


def tables(connection: sqlite3.Connection) -> list[str]:
    """All but SQLite's own and those behind a search index."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    found = {row[0]: row[1] or "" for row in rows}
    virtual = [name for name, sql in found.items() if sql.upper().startswith("CREATE VIRTUAL")]
    return [
        name
        for name in found
        if not name.startswith("sqlite_") and not any(name == v or name.startswith(f"{v}_") for v in virtual)
    ]


def naming(
    connection: sqlite3.Connection, table: str, finder: Finder[Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Rows of the table that name the number: their key, and the columns that do."""
    keys, columns = _columns(connection, table)
    for row in connection.execute(f"SELECT {', '.join((*keys, *map(quote, columns)))} FROM {quote(table)}"):
        values = row[len(keys) :]
        named = {
            column: value
            for column, value in zip(columns, values, strict=True)
            if (text := _text(value)) is not None and finder.names(text)
        }
        if named:
            yield dict(zip(keys, row[: len(keys)], strict=True)), named


def sweep(tx: Transaction, table: str, finder: Finder[Any], whole: Collection[str] = ()) -> int:
    """Take the number out of every row; a row whose key names it goes. A text in a column of `whole` is
    `erased` altogether. Returns how many rows."""
    found = list(naming(tx.connection, table, finder))
    for key, named in found:
        where = " AND ".join(f"{name} IS ?" for name in key)
        if any(quote(column) in key for column in named):
            tx.execute(f"DELETE FROM {quote(table)} WHERE {where}", tuple(key.values()))
            continue
        new = {
            column: ERASED if column in whole else _same_type(value, without(_text(value) or "", finder))
            for column, value in named.items()
        }
        # A row that becomes like another is that one.
        tx.execute(
            f"UPDATE OR REPLACE {quote(table)} SET {', '.join(f'{quote(c)} = ?' for c in new)} WHERE {where}",
            (*new.values(), *key.values()),
        )
    return len(found)


def _columns(connection: sqlite3.Connection, table: str) -> tuple[list[str], list[str]]:
    """What names a row, and every column."""
    rows = connection.execute(f"PRAGMA table_info({quote(table)})").fetchall()
    keys = [quote(row[1]) for row in sorted(rows, key=lambda row: row[5]) if row[5]]
    return keys or ["rowid"], [row[1] for row in rows]


def _text(value: object) -> str | None:
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
