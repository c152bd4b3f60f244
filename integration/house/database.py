"""house.db: what only we know and nothing can rebuild. `synchronous=FULL`, mode 0600.

Every module that owns tables here has a constant `TABLES`, an SQL script of `CREATE … IF NOT EXISTS`, and
is named in `OWNERS`. What an existing table needs to change is a step of `MIGRATIONS` (`migrations.py`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

from integration import migrations
from integration.database import Database
from integration.errors import StorageError
from integration.house import (
    alert_log,
    alert_rules,
    attempts,
    audit,
    callbacks,
    column_sets,
    erasures,
    export_deliveries,
    export_schedules,
    heard,
    holds,
    journal,
    keys,
    notes,
    people,
    phones,
    prepared_exports,
    promoted,
    remembered,
    seen,
    sessions,
    setup_links,
    views,
    wallboards,
)
from integration.migrations import Step, run_script

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
    column_sets,
    export_schedules,
    export_deliveries,
    prepared_exports,
    journal,
    remembered,
    wallboards,
    alert_rules,
    alert_log,
    phones,
    seen,
    heard,
    views,
    promoted,
    holds,
    erasures,
)

MIGRATIONS: dict[str, Step] = {
    "0001 first form": lambda _connection: None,
}
"""In order, by name. The first is recorded in every house.db there is."""


def open_house(path: Path, **kw: Any) -> Database:
    """Open house.db, creating or migrating it; `kw` goes to `Database` (`on_broken`, `group`, …).

    Raises NewerDatabase, and StorageError where the file can't be created or its mode can't be set.
    """
    _keep_private(path)
    return Database(path, prepare=prepare, synchronous="FULL", **kw)


def prepare(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version's form. Raises NewerDatabase."""
    migrations.prepare(connection, "house.db", MIGRATIONS, _create)


def _create(connection: sqlite3.Connection) -> None:
    for owner in OWNERS:
        run_script(connection, owner.TABLES)


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
