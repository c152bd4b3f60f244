"""Saved column sets of exports: a name for which columns a file has and in which order, a person's own or
everybody's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from integration.core import clock
from integration.core.errors import DomainError
from integration.sqlite.database import Database
from integration.sqlite.transaction import Transaction

# A set that others use outlives whoever made it.
TABLES = """
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
MAX_SETS = 50
"""Sets of one person for one export."""


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """`export` is a collection's table or a ready-made export, as in `/exports/<export>.csv`; `person_id`
    made it (None: somebody who is gone), others find it if it is `shared`."""

    id: int
    person_id: int | None
    export: str
    name: str
    columns: tuple[str, ...]
    shared: bool


_SELECT = "SELECT id, person_id, export, name, columns, shared FROM column_sets"


def list_visible(connection: sqlite3.Connection, export: str, person_id: int | None) -> list[ColumnSet]:
    """A person's own sets of an export and those others share, by name."""
    rows = connection.execute(
        f"{_SELECT} WHERE export = ? AND (person_id = ? OR shared) ORDER BY name COLLATE NOCASE, id",
        (export, person_id),
    )
    return [_from_row(row) for row in rows]


def find(
    connection: sqlite3.Connection, export: str, name: str, person_id: int | None = None
) -> ColumnSet | None:
    """The set of this name: the person's own, else the shared one. Without a person only a shared one."""
    row = connection.execute(
        f"{_SELECT} WHERE export = ? AND name = ? AND (person_id = ? OR shared)"
        " ORDER BY person_id IS ? DESC LIMIT 1",
        (export, normalize_name(name), person_id, person_id),
    ).fetchone()
    return None if row is None else _from_row(row)


def save(
    app_db: Database, person_id: int, export: str, name: str, columns: Sequence[str], *, shared: bool
) -> None:
    """Keep a set; one's own of the same name is replaced. Raises DomainError for no name, no columns, too
    many, and a shared name that is somebody else's."""
    name = normalize_name(name)
    if not name:
        raise DomainError("A column set needs a name.")
    if not columns:
        raise DomainError("A column set needs at least one column.")

    def work(tx: Transaction) -> None:
        conflict = tx.execute(
            "SELECT 1 FROM column_sets WHERE export = ? AND name = ? AND shared AND person_id IS NOT ?",
            (export, name, person_id),
        ).fetchone()
        if shared and conflict:
            raise DomainError(f"Somebody else shares a set called “{name}”. Choose another name.")
        tx.execute(
            "INSERT INTO column_sets (person_id, export, name, columns, shared, at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (person_id, export, name) DO UPDATE SET columns = excluded.columns,"
            " shared = excluded.shared, at = excluded.at",
            (person_id, export, name, ",".join(columns), int(shared), clock.utc_text()),
        )
        count = tx.execute(
            "SELECT count(*) FROM column_sets WHERE person_id = ? AND export = ?", (person_id, export)
        ).fetchone()[0]
        if count > MAX_SETS:
            raise DomainError(f"There are {MAX_SETS} sets already. Remove one first.")

    app_db.write(work)


def remove(app_db: Database, set_id: int, person_id: int, *, include_shared: bool = False) -> bool:
    """Take away a set of one's own, or (`include_shared`) a shared one; False where there is none."""
    return app_db.write(
        lambda tx: (
            tx.execute(
                "DELETE FROM column_sets WHERE id = ? AND (person_id = ? OR shared AND ?)",
                (set_id, person_id, int(include_shared)),
            ).rowcount
            > 0
        )
    )


def normalize_name(name: str) -> str:
    return " ".join(name.split())[:MAX_NAME_LENGTH]


def _from_row(row: sqlite3.Row) -> ColumnSet:
    return ColumnSet(row[0], row[1], row[2], row[3], tuple(row[4].split(",")), bool(row[5]))
