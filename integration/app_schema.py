"""Schema of the application database house.db: data that exists only here.

The file has mode 0600 and `synchronous=FULL`. Each module that owns tables has a constant `TABLES`, an SQL
script of `CREATE … IF NOT EXISTS`, and is listed in `TABLE_MODULES`. A change of an existing table is a step
of `MIGRATIONS` (`sqlite/migrations.py`).
"""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path
from types import ModuleType
from typing import Any

from integration.access import (
    audit,
    credential_cache,
    keys,
    login_throttle,
    people,
    session_ends,
    sessions,
    setup_links,
)
from integration.access.login import devices, mail_queue, second_factor
from integration.alerts import notification_log, rules
from integration.core.errors import RepairNeeded, StorageError
from integration.events import delivery_log, subscriptions
from integration.exports import jobs as export_jobs
from integration.outbound import mail_server
from integration.privacy import erasures, holds
from integration.sqlite import migrations
from integration.sqlite.database import Database
from integration.sqlite.database_files import CREATED_FILE, find_lost_databases
from integration.sqlite.migrations import Step
from integration.sqlite.schema import Schema, execute_script
from integration.sync.writing import write_log
from integration.workspace import (
    announcement_files,
    app_changes,
    callbacks,
    notes,
    opening_hours,
    opt_outs,
    person_settings,
    reads,
    saved,
    text_back,
    wallboards,
)

# `people` is first, because sessions and setup links refer to its table. `app_changes` has triggers on
# earlier tables.
TABLE_MODULES: tuple[ModuleType, ...] = (
    people,
    sessions,
    session_ends,
    setup_links,
    devices,
    second_factor,
    mail_queue,
    keys,
    login_throttle,
    audit,
    notes,
    callbacks,
    app_changes,
    saved,
    export_jobs,
    write_log,
    credential_cache,
    wallboards,
    mail_server,
    rules,
    notification_log,
    subscriptions,
    delivery_log,
    person_settings,
    reads,
    holds,
    erasures,
    announcement_files,
    opening_hours,
    opt_outs,
    text_back,
)

MIGRATIONS: dict[str, Step] = {
    "0001 first form": lambda _schema: None,
    "0002 rights in one column": people.merge_right_columns,
    "write results of labels": notes.add_write_result_column,
    "confirmation of sessions": sessions.add_confirmation_columns,
    "reset links": setup_links.add_reset_column,
    "hashes of the audit log": lambda _schema: None,
    "limits of keys": keys.add_limit_columns,
    "reports of erasures": erasures.add_report_column,
    "default columns of schedules": export_jobs.store_default_columns,
    "names of dashboard users": lambda _schema: None,
    "optional targets of call-backs": wallboards.make_callback_target_optional,
    "promoted fields": lambda schema: schema.table("promoted_fields").drop(ignore=True),
    "numbers and queues of alert rules": rules.add_sentence_columns,
    "role of exports only": people.add_exports_column,
    "no hashes of the audit log": audit.drop_hash_chain,
    "one table of export jobs": export_jobs.merge_schedules_and_downloads,
    "settings of dashboard users in one table": person_settings.merge_tables,
    "start of the call-back list": callbacks.drop_position,
    "alert rules during opening hours": rules.add_only_open_column,
    "hidden columns among settings": person_settings.merge_hidden_columns,
}
"""Migration steps by name, in order. Every existing house.db records the first one."""


def open_app_db(path: Path, **options: Any) -> Database:
    """Open house.db, and create or migrate it.

    `options` are passed to `Database` (`on_broken`, `group_size` …). Raises NewerDatabase, RepairNeeded if
    the file was created before and is lost, and StorageError if it cannot be created or its mode be set.
    """
    lost_databases = find_lost_databases(path.parent, [path.name])
    if lost_databases:
        # A new file would have no erasures and no legal holds: erased data would be read again, and protected
        # data deleted.
        raise RepairNeeded(
            f"{path.name} {lost_databases[path.name]} in {path.parent.absolute()}, which is in use. It holds"
            f" users, keys, notes, legal holds and erasures. Delete {path.name}-wal, and copy {path.name}"
            " from the newest backup into this folder. To start without this data, delete"
            f" {path.with_name(CREATED_FILE).absolute()}."
        )
    _make_private(path)
    database = Database(path, prepare=migrate, synchronous="FULL", **options)
    # Key of the hashes that version 0.1.0 stored in the audit log.
    (path.parent / "audit-key").unlink(missing_ok=True)
    return database


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate the schema to this version. Raises NewerDatabase."""
    migrations.migrate(connection, "house.db", MIGRATIONS, _create_tables)


def _create_tables(schema: Schema) -> None:
    for module in TABLE_MODULES:
        execute_script(schema, module.TABLES)


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, or set that mode.

    The files -wal and -shm inherit it.
    """
    try:
        # Not opened if it exists: to close it would drop the locks of this process.
        path.touch(mode=0o600)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be made private (mode 0600): {error.strerror}. "
            "Check the owner of the file and of its folder."
        ) from error
