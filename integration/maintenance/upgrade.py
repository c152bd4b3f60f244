"""Upgrade of data_dir by a start.

Newer data is refused, and the databases are copied before a migration.
`sqlite/migrations.py` migrates each database when it is opened. The functions here run before.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from integration import __version__
from integration.core.errors import StorageDamaged, StorageFull
from integration.maintenance import backup, version_record
from integration.sqlite.migrations import FORMER_TABLE, read_recorded_steps
from integration.sqlite.readers import open_readonly

log = logging.getLogger(__name__)

COPY_PREFIX = "before-"
"""Start of the name of a folder with the databases before an upgrade; the version follows."""

KEEP_DAYS = 7
"""Days after which `privacy/retention` deletes such a folder."""

_STEP_TABLES = ("_sqlite_migrations", FORMER_TABLE)


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """Schema of a database in this version.

    `steps`: names of its migration steps. `prepare` creates or migrates the schema.
    """

    name: str
    steps: Collection[str]
    prepare: Callable[[sqlite3.Connection], None]


def get_copy_folder(data_dir: Path, version: str = __version__) -> Path:
    """Return the folder for the databases before the upgrade to `version`."""
    return data_dir / "backups" / f"{COPY_PREFIX}{version}"


def has_copies(data_dir: Path) -> bool:
    """Return whether data_dir has databases from before an upgrade."""
    return any((data_dir / "backups").glob(f"{COPY_PREFIX}*"))


def prepare_data_dir(
    data_dir: Path, schemas: Sequence[DatabaseSchema], print_line: Callable[[str], None]
) -> None:
    """Prepare `data_dir` for a start of this version.

    1. Refuse data of a newer version.
    2. Copy the databases if the start migrates them, or if their version may store different data.
    3. Record this version. From here on an older one refuses the data, also if this process is killed.

    The caller holds the lock.

    `print_line` receives a line with the way back. Raises NewerDatabase, StorageFull and other StorageErrors.
    """
    recorded = version_record.read(data_dir)
    try:
        needs_copy = _needs_copy(data_dir, schemas, recorded)
        if needs_copy:
            _copy(data_dir, schemas, recorded or version_record.UNRECORDED, print_line)
    except StorageDamaged as error:
        # The next lines of the start replace or refuse the damaged database.
        log.error("the databases are not copied before the upgrade: %s", error)
    if recorded != __version__:
        version_record.write(data_dir)


def _needs_copy(data_dir: Path, schemas: Sequence[DatabaseSchema], recorded: str | None) -> bool:
    """Return whether a start copies the databases first. Raises NewerDatabase."""
    is_migration = any(find_pending_steps(data_dir, schema, recorded) for schema in schemas)
    if recorded is None and not _is_complete(data_dir, schemas):
        # Before the first start a command such as `user add` has created one of the databases.
        return is_migration
    if recorded is not None:
        version_record.refuse_newer(data_dir, recorded, _describe_way_back(data_dir, recorded))
    if recorded == __version__:
        # An earlier start of this version was killed. Its copy has the state before the migration.
        return is_migration and not get_copy_folder(data_dir).exists()
    return is_migration or version_record.has_other_form(recorded or version_record.UNRECORDED, __version__)


def _is_complete(data_dir: Path, schemas: Sequence[DatabaseSchema]) -> bool:
    return all((data_dir / schema.name).is_file() for schema in schemas)


def find_pending_steps(data_dir: Path, schema: DatabaseSchema, recorded: str | None) -> list[str]:
    """Return the steps that a start applies to a database.

    Raises NewerDatabase if the database records a step of a newer version. Without a version in the record
    `sqlite/migrations.py` refuses it.
    """
    path = data_dir / schema.name
    if not path.is_file() or not path.stat().st_size:
        return []
    with open_readonly(path) as connection:
        steps = read_recorded_steps(connection, schema.name)
    if steps is None:
        return []
    if steps - set(schema.steps) and recorded is not None and version_record.is_newer(recorded):
        raise version_record.make_refusal(data_dir, recorded, _describe_way_back(data_dir, recorded))
    return [step for step in schema.steps if step not in steps]


def _describe_way_back(data_dir: Path, version: str) -> str:
    folder = get_copy_folder(data_dir, version)
    if folder.is_dir():
        return f"To go back to the data before {version}, run `{_way_back_command(folder)}`."
    return f"To go back to older data, restore a backup that was made before {version}."


def _way_back_command(folder: Path) -> str:
    return f"switchroom restore {folder.absolute()} --replace"


def _copy(
    data_dir: Path, schemas: Sequence[DatabaseSchema], version: str, print_line: Callable[[str], None]
) -> None:
    if not _is_complete(data_dir, schemas):
        # The start refuses a lost house.db and rebuilds the others: there is no complete state to go back to.
        log.error("the databases are not copied before the upgrade, because one is missing")
        return
    folder = get_copy_folder(data_dir)
    print_line(f"Upgrading the data of Switchroom {version} to {__version__}. Copying the databases first …")
    try:
        backup.copy_databases(data_dir, folder, version)
    except StorageFull as error:
        raise StorageFull(
            f"The databases are copied before an upgrade from {version} to {__version__}: {error}"
        ) from error
    print_line(
        f"The databases before the upgrade are in {folder.absolute()} for {KEEP_DAYS} days. To go back, stop"
        f" Switchroom, run `{_way_back_command(folder)}`, and start Switchroom {version}."
    )


def describe_changes(data_dir: Path, schemas: Sequence[DatabaseSchema]) -> list[str]:
    """Describe what a start of this version would change, one line each.

    Changes nothing. Raises NewerDatabase and other StorageErrors.
    """
    recorded = version_record.read(data_dir)
    lines = [
        f"{schema.name}: {change}"
        for schema in schemas
        for change in _describe_schema_changes(data_dir, schema, recorded)
    ]
    if _needs_copy(data_dir, schemas, recorded):
        size = sum((data_dir / schema.name).stat().st_size for schema in schemas) / 1e6
        free = shutil.disk_usage(data_dir).free / 1e6
        lines.append(
            f"{get_copy_folder(data_dir)}: the databases are copied there first ({size:,.1f} MB;"
            f" {free:,.0f} MB are free)"
        )
    return lines


def _describe_schema_changes(data_dir: Path, schema: DatabaseSchema, recorded: str | None) -> Iterator[str]:
    path = data_dir / schema.name
    if not path.is_file() or not path.stat().st_size:
        return
    for step in find_pending_steps(data_dir, schema, recorded):
        yield f"migration step “{step}”"
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as trial:
        with open_readonly(path) as connection:
            _copy_schema(connection, trial)
        before = _list_columns(trial)
        schema.prepare(trial)
        after = _list_columns(trial)
    for name in sorted(after.keys() - before.keys()):
        yield f"new: {name}"
    for name in sorted(before.keys() - after.keys()):
        yield f"removed: {name}"
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            changed = sorted(set(before[name]) ^ set(after[name])) or ["order of columns"]
            yield f"changed: {name} ({', '.join(changed)})"


def _copy_schema(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Create the tables, indexes, views and triggers of `source`, without rows.

    Only the recorded steps are copied. Tables behind a virtual table are created with it.
    """
    hidden = {row[1] for row in source.execute("PRAGMA table_list") if row[2] == "shadow"}
    for statement, name in source.execute(
        "SELECT sql, name FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " ORDER BY CASE type WHEN 'table' THEN 0 WHEN 'index' THEN 1 WHEN 'view' THEN 2 ELSE 3 END"
    ):
        if name not in hidden:
            target.execute(statement)
    tables = {row[0] for row in source.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for table in tables.intersection(_STEP_TABLES):
        rows = source.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 — one of two constants
        if rows:
            places = ",".join("?" * len(rows[0]))
            target.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608


def _list_columns(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Return the columns of tables, indexes, views and triggers.

    Keys are type and name. Those of the recorded steps are left out.
    """
    return {
        f"{kind} {name}": tuple(
            row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
        )
        for kind, name, table in connection.execute(
            "SELECT type, name, tbl_name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        if table not in _STEP_TABLES
    }
