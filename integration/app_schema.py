"""house.db: what only we know and nothing can rebuild. `synchronous=FULL`, mode 0600.

Every module that owns tables here has a constant `TABLES`, an SQL script of `CREATE … IF NOT EXISTS`, and
is named in `TABLE_MODULES`. What an existing table needs to change is a step of `MIGRATIONS`
(`migrations.py`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

from integration.access import audit, credential_cache, keys, login_throttle, people, sessions, setup_links
from integration.alerts import notification_log, rules
from integration.core.errors import StorageError
from integration.exports import deliveries, prepared_exports, schedules
from integration.privacy import erasures, holds
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import Step
from integration.sqlite.schema import Schema, execute_script
from integration.sync.writing import write_log
from integration.workspace import (
    callbacks,
    notes,
    preferred_phones,
    promoted_fields,
    reads,
    saved,
    wallboards,
)

# People first: sessions and set-up links refer to them.
TABLE_MODULES: tuple[ModuleType, ...] = (
    people,
    sessions,
    setup_links,
    keys,
    login_throttle,
    audit,
    notes,
    callbacks,
    saved,
    schedules,
    deliveries,
    prepared_exports,
    write_log,
    credential_cache,
    wallboards,
    rules,
    notification_log,
    preferred_phones,
    reads,
    promoted_fields,
    holds,
    erasures,
)

MIGRATIONS: dict[str, Step] = {
    "0001 first form": lambda _schema: None,
    "0002 rights in one column": people.merge_right_columns,
}
"""In order, by name. The first is recorded in every house.db there is."""


def open_app_db(path: Path, **options: Any) -> Database:
    """Open house.db, creating or migrating it; `options` goes to `Database` (`on_broken`, `group`, …).

    Raises NewerDatabase, and StorageError where the file can't be created or its mode can't be set.
    """
    _make_private(path)
    return Database(path, prepare=migrate, synchronous="FULL", **options)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema to this version's form. Raises NewerDatabase."""
    migrations.migrate(connection, "house.db", MIGRATIONS, _create_tables)


def _create_tables(schema: Schema) -> None:
    for module in TABLE_MODULES:
        execute_script(schema, module.TABLES)


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, or take away what others may do; -wal and -shm inherit it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise StorageError(
            f"{path}: can't be kept private ({error.strerror}); check its owner and folder"
        ) from error
