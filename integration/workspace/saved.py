"""Saved views of pages, and column sets of exports.

Users see their own items and shared items of others.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

# A shared column set is kept when its owner is removed, because other users may depend on it.
TABLES = """
CREATE TABLE IF NOT EXISTS views (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE,
    page TEXT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    shared INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (person_id, page, name)
) STRICT;
CREATE TABLE IF NOT EXISTS column_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id INTEGER REFERENCES people (id) ON DELETE SET NULL,
    export TEXT NOT NULL,
    name TEXT NOT NULL,
    columns TEXT NOT NULL,
    shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
    at TEXT NOT NULL,
    UNIQUE (person_id, export, name)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS column_sets_shared ON column_sets (export, name) WHERE shared;
CREATE TRIGGER IF NOT EXISTS column_sets_of_the_gone BEFORE DELETE ON people BEGIN
    DELETE FROM column_sets WHERE person_id = OLD.id AND NOT shared;
END;
"""

MAX_NAME_LENGTH = 60
MAX_ITEMS = 50
"""Largest number of saved items of one user for one page or export."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of saved item and its table.

    `place` is the column with the page or export, `content` the column with the saved value. `noun` and
    `plural` are used in messages.
    """

    table: str
    place: str
    content: str
    noun: str
    plural: str
    has_pins: bool = False


VIEWS = Kind("views", "page", "query", "view", "views", has_pins=True)
COLUMN_SETS = Kind("column_sets", "export", "columns", "column set", "sets")


@dataclass(frozen=True, slots=True)
class SavedItem:
    """A saved item. `person_id` is the owner, None after the owner's removal.

    Other users see the item if it is `shared`. `content` is the query string of a view, or the column names
    of a set, separated by commas.
    """

    id: int
    person_id: int | None
    name: str
    content: str
    shared: bool
    pinned: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.content.split(","))


def all_of(connection: sqlite3.Connection, kind: Kind, place: str, person_id: int | None) -> list[SavedItem]:
    """Return the user's own and shared items of a page or export.

    Sorted by name, pinned items first.
    """
    rows = connection.execute(
        f"{_select(kind)} WHERE {kind.place} = ? AND (person_id = ? OR shared)"
        " ORDER BY pinned DESC, name COLLATE NOCASE, id",
        (place, person_id),
    )
    return [_from_row(row) for row in rows]


def find(
    connection: sqlite3.Connection, kind: Kind, place: str, name: str, person_id: int | None = None
) -> SavedItem | None:
    """Return an item by name: the user's own, otherwise a shared item."""
    row = connection.execute(
        f"{_select(kind)} WHERE {kind.place} = ? AND name = ? AND (person_id = ? OR shared)"
        " ORDER BY person_id IS ? DESC LIMIT 1",
        (place, normalize_name(name), person_id, person_id),
    ).fetchone()
    return None if row is None else _from_row(row)


def save(
    app_db: Database,
    kind: Kind,
    place: str,
    person_id: int,
    name: str,
    content: str,
    *,
    shared: bool,
    pinned: bool = False,
) -> None:
    """Store an item.

    It replaces the user's own item with the same name. Raises DomainError for an empty name, too many items,
    a set without columns, and a shared set whose name another user's shared set has.
    """
    name = normalize_name(name)
    if not name:
        raise DomainError(f"Enter a name for the {kind.noun}.")
    if kind is COLUMN_SETS and not content:
        raise DomainError("Choose at least one column for the column set.")
    values = {
        "person_id": person_id,
        kind.place: place,
        "name": name,
        kind.content: content,
        "shared": int(shared),
        "at": clock.utc_text(),
    } | ({"pinned": int(pinned)} if kind.has_pins else {})
    updates = ", ".join(f"{column} = excluded.{column}" for column in [*values][3:])

    def work(tx: Transaction) -> None:
        if shared and kind is COLUMN_SETS:
            _check_shared_set_name(tx, place, name, person_id)
        tx.execute(
            f"INSERT INTO {kind.table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
            f" ON CONFLICT (person_id, {kind.place}, name) DO UPDATE SET {updates}",
            tuple(values.values()),
        )
        count = tx.execute(
            f"SELECT count(*) FROM {kind.table} WHERE person_id = ? AND {kind.place} = ?", (person_id, place)
        ).fetchone()[0]
        if count > MAX_ITEMS:
            raise DomainError(f"You can save at most {MAX_ITEMS} {kind.plural} here. Remove one first.")

    app_db.write(work)


def remove(
    app_db: Database, kind: Kind, item_id: int, person_id: int, *, include_shared: bool = False
) -> bool:
    """Delete an item of the user or, with `include_shared`, a shared one.

    Returns False if there is none.
    """
    return app_db.write(
        lambda tx: (
            tx.execute(
                f"DELETE FROM {kind.table} WHERE id = ? AND (person_id = ? OR shared AND ?)",
                (item_id, person_id, int(include_shared)),
            ).rowcount
            > 0
        )
    )


def normalize_name(name: str) -> str:
    return " ".join(name.split())[:MAX_NAME_LENGTH]


def _select(kind: Kind) -> str:
    pinned = "pinned" if kind.has_pins else "0 AS pinned"
    return f"SELECT id, person_id, name, {kind.content}, shared, {pinned} FROM {kind.table}"


def _from_row(row: sqlite3.Row) -> SavedItem:
    return SavedItem(row[0], row[1], row[2], row[3], bool(row[4]), bool(row[5]))


def _check_shared_set_name(tx: Transaction, export: str, name: str, person_id: int) -> None:
    conflict = tx.execute(
        "SELECT 1 FROM column_sets WHERE export = ? AND name = ? AND shared AND person_id IS NOT ?",
        (export, name, person_id),
    ).fetchone()
    if conflict:
        raise DomainError(f"Another user already shares a column set “{name}”. Choose another name.")
