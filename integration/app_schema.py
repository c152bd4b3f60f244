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

from integration.access import (
    audit,
    keys,
    people,
    sessions,
    setup_links,
)
from integration.access import (
    credential_cache as remembered,
)
from integration.access import (
    login_throttle as attempts,
)
from integration.alerts import notification_log as alert_log
from integration.alerts import rules as alert_rules
from integration.core.errors import StorageError
from integration.exports import (
    deliveries as export_deliveries,
)
from integration.exports import (
    prepared_exports,
)
from integration.exports import (
    schedule_table as export_schedules,
)
from integration.privacy import erasures, holds
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.migrations import Step, run_script
from integration.sync.writing import write_log as journal
from integration.workspace import (
    callbacks,
    column_sets,
    heard,
    notes,
    wallboards,
)
from integration.workspace import (
    preferred_phones as phones,
)
from integration.workspace import (
    promoted_fields as promoted,
)
from integration.workspace import (
    reads as seen,
)
from integration.workspace import (
    saved_views as views,
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
