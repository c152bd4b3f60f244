"""house.db: what only we know and nothing can rebuild. `synchronous=FULL`, mode 0600.

Every module that owns tables here has a constant `TABLES`, an SQL script of `CREATE … IF NOT EXISTS`, and
is named in `OWNERS`. A new table needs nothing more. What an existing table needs to change is a named
migration; a database that records a migration this version doesn't know was written by a newer one.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from integration import clock
from integration.database import Database
from integration.errors import NewerDatabase, StorageError
from integration.house import (
    attempts,
    audit,
    callbacks,
    journal,
    keys,
    notes,
    people,
    phones,
    remembered,
    seen,
    sessions,
    setup_links,
    views,
    wallboards,
)

# People first: sessions and set-up links refer to them.
OWNERS: tuple[ModuleType, ...] = (
    people,
    sessions,
    setup_links,
    keys,
    attempts,
    audit,
    notes,
    callbacks,
    journal,
    remembered,
    wallboards,
    phones,
    seen,
    views,
)

Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: dict[str, Migration | None] = {
    "0001 first form": None,
}
"""In order, by name; None is the form that `TABLES` had first. A migration runs in one transaction with its
record; it must not commit. A table it fills that is new as well, it creates itself."""


def open_house(path: Path, **kw: Any) -> Database:
    """Open house.db, creating or migrating it; `kw` goes to `Database` (`on_broken`, `group`, …).

    Raises NewerDatabase, and StorageError where the file can't be created or its mode can't be set.
    """
    _keep_private(path)
    return Database(path, prepare=prepare, synchronous="FULL", **kw)


def prepare(connection: sqlite3.Connection, migrations: dict[str, Migration | None] | None = None) -> None:
    """Bring the schema to this version's form; each step is one transaction with its record."""
    known = MIGRATIONS if migrations is None else migrations
    done = _recorded(connection)
    unknown = sorted(done - known.keys())
    if unknown:
        raise NewerDatabase(
            f"house.db was written by a newer version of Switchroom (it knows {unknown[0]!r}); start that one"
        )
    fresh = not done
    if not fresh:
        for name, migrate in known.items():
            if name not in done:
                with _one_transaction(connection):
                    if migrate is not None:
                        migrate(connection)
                    _record(connection, name)
    # One script in one transaction: a kill leaves the old form or the new one. `executescript` commits
    # what is open before it begins, so the transaction has to be part of the script.
    try:
        connection.executescript(
            "BEGIN IMMEDIATE;\n"
            "CREATE TABLE IF NOT EXISTS _migrations (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;\n"
            + "\n".join(f"{owner.TABLES.rstrip().rstrip(';')};" for owner in OWNERS)
        )
        if fresh:
            # TABLES already have the form that the migrations lead to.
            for name in known:
                _record(connection, name)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _keep_private(path: Path) -> None:
    """Create the file with mode 0600, or take away what others may do; -wal and -shm inherit it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise StorageError(
            f"{path}: can't be kept private ({error.strerror}); check its owner and folder"
        ) from error


def _recorded(connection: sqlite3.Connection) -> set[str]:
    exists = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = '_migrations'").fetchone()
    return {row[0] for row in connection.execute("SELECT name FROM _migrations")} if exists else set()


def _record(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("INSERT INTO _migrations (name, at) VALUES (?, ?)", (name, clock.stamp()))


class _one_transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
