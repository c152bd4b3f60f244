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
from integration.core.json_records import column_value, read_object
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

OWN = frozenset({"_n", "_doc", "_item", "_first_seen", "_last_seen", "_source", "_missing_since"})
"""Bookkeeping columns of every collection's table."""

SLICE = 2000
"""Records filled in one transaction."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def columns(connection: sqlite3.Connection | Transaction, of: Resource) -> list[str]:
    """The fields of `of` that were made columns."""
    known = {field.name for field in of.fields} | OWN
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (of.table,))
    return [row[0] for row in rows if row[0] not in known]


def ready(connection: sqlite3.Connection | Transaction, of: Resource) -> set[str]:
    """Those of them that hold every record's value, and are indexed."""
    prefix = _index(of, "")
    rows = connection.execute("SELECT name FROM pragma_index_list(?)", (of.table,))
    return {row[0].removeprefix(prefix) for row in rows if row[0].startswith(prefix)}


def refusal(connection: sqlite3.Connection | Transaction, of: Resource, name: str) -> str | None:
    """Why the field can't be made a column; None where it can."""
    if not _NAME.fullmatch(name):
        return f"{name[:64]!r} can't be the name of a column"
    taken = connection.execute("SELECT name FROM pragma_table_info(?)", (of.table,))
    if name.lower() in {row[0].lower() for row in taken}:
        return f"/{of.collection} has a column {name!r} already"
    return None


def promote(
    mirror: Database,
    of: Resource,
    name: str,
    told: Callable[[int, int], None] = lambda _done, _total: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Make the field `name` a column, fill it and index it; `told(done, total)` records. Raises QueryError
    where it can't be one. What is interrupted, or not wanted while `stopping`, is finished by `settle`."""

    def begin(tx: Transaction) -> None:
        why = refusal(tx, of, name)
        if why is not None:
            raise QueryError(why)
        tx.execute(f'ALTER TABLE "{of.table}" ADD COLUMN "{name}" ANY')

    mirror.write(begin)
    _finish(mirror, of, name, told, stopping)


def demote(mirror: Database, of: Resource, name: str) -> None:
    """Take the column away; the records keep the field. Nothing happens where there is none."""

    def job(tx: Transaction) -> None:
        if name in columns(tx, of):
            tx.execute(f'DROP INDEX IF EXISTS "{_index(of, name)}"')
            tx.execute(f'ALTER TABLE "{of.table}" DROP COLUMN "{name}"')

    mirror.write(job)


def settle(
    mirror: Database,
    of: Resource,
    wanted: Collection[str],
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the columns of a table to those that are wanted, and finish what was interrupted, unless
    `stopping`. What can't be a column is left out."""
    with mirror.read() as connection:
        present = columns(connection, of)
        refused = {name for name in wanted if refusal(connection, of, name) is not None}
        unfinished = set(present) - ready(connection, of)
    for name in set(present).difference(wanted):
        demote(mirror, of, name)
    for name in unfinished.intersection(wanted):
        _finish(mirror, of, name, stopping=stopping)
    for name in sorted(set(wanted) - refused):
        promote(mirror, of, name, stopping=stopping)


def document(connection: sqlite3.Connection, of: Resource, name: str) -> None:
    """The catalogue has learnt a field since: a column, filled for the records there are."""
    connection.execute(f'ALTER TABLE "{of.table}" ADD COLUMN "{name}" ANY')
    connection.execute(
        f'UPDATE "{of.table}" SET "{name}" = json_extract(_doc, ?) '
        "WHERE instr(_doc, ?) > 0 AND json_valid(_doc)",
        (f'$."{name}"', f'"{name}"'),
    )


def _finish(
    mirror: Database,
    of: Resource,
    name: str,
    told: Callable[[int, int], None] = lambda _done, _total: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Fill the column from the records; its index says that it is done."""
    with mirror.read() as connection:
        total, last = connection.execute(
            f'SELECT count(*), coalesce(max(rowid), 0) FROM "{of.table}"'
        ).fetchone()
    done, after = 0, None

    def fill(tx: Transaction) -> tuple[int, int | None]:
        rows = tx.execute(
            f'SELECT rowid, _doc FROM "{of.table}" WHERE (? IS NULL OR rowid > ?) AND rowid <= ? '
            "ORDER BY rowid LIMIT ?",
            (after, after, last, SLICE),
        ).fetchall()
        found = [(value, row[0]) for row in rows if (value := _value(row[1], name)) is not None]
        tx.executemany(f'UPDATE "{of.table}" SET "{name}" = ? WHERE rowid = ?', found)
        return len(rows), rows[-1][0] if rows else None

    index = f'CREATE INDEX IF NOT EXISTS "{_index(of, name)}" ON "{of.table}" ("{name}", _missing_since)'
    while not stopping():
        count, after = mirror.write(fill)
        if not count:
            mirror.write(lambda tx: tx.execute(index) and None)
            return
        done += count
        told(done, total)


def _value(doc: str, name: str) -> object:
    return column_value(read_object(doc).values.get(name)) if f'"{name}"' in doc else None


def _index(of: Resource, name: str) -> str:
    return f"{of.table}_promoted_{name}"
