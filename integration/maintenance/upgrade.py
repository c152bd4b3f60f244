"""Upgrade of data_dir by a start.

Newer data is refused, and the databases are copied before a migration.
`sqlite/migrations.py` migrates each database when it is opened. The functions here run before.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from integration import __version__
from integration.core.errors import StorageDamaged, StorageFull
from integration.maintenance import backup, version_record
from integration.sqlite.migrations import read_recorded_steps
from integration.sqlite.readers import open_readonly

log = logging.getLogger(__name__)

COPY_PREFIX = "before-"
"""Start of the name of a folder with the databases before an upgrade; the version follows."""

KEEP_DAYS = 7
"""Days after which `privacy/retention` deletes such a folder."""

Schemas = Mapping[str, Collection[str]]
"""Names of the migration steps of this version by database."""


def get_copy_folder(data_dir: Path, version: str = __version__) -> Path:
    """Return the folder for the databases before the upgrade to `version`."""
    return data_dir / "backups" / f"{COPY_PREFIX}{version}"


def has_copies(data_dir: Path) -> bool:
    """Return whether data_dir has databases from before an upgrade."""
    return any((data_dir / "backups").glob(f"{COPY_PREFIX}*"))


def prepare_data_dir(data_dir: Path, schemas: Schemas, print_line: Callable[[str], None]) -> None:
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


def _needs_copy(data_dir: Path, schemas: Schemas, recorded: str | None) -> bool:
    """Return whether a start copies the databases first. Raises NewerDatabase."""
    is_migration = any(find_pending_steps(data_dir, name, steps, recorded) for name, steps in schemas.items())
    if recorded is None and not _is_complete(data_dir, schemas):
        # Before the first start a command such as `user add` has created one of the databases.
        return is_migration
    if recorded is not None:
        version_record.refuse_newer(data_dir, recorded, _describe_way_back(data_dir, recorded))
    if recorded == __version__:
        # An earlier start of this version was killed. Its copy has the state before the migration.
        return is_migration and not get_copy_folder(data_dir).exists()
    return is_migration or version_record.has_other_form(recorded or version_record.UNRECORDED, __version__)


def _is_complete(data_dir: Path, schemas: Schemas) -> bool:
    return all((data_dir / name).is_file() for name in schemas)


def find_pending_steps(data_dir: Path, name: str, steps: Collection[str], recorded: str | None) -> list[str]:
    """Return the steps that a start applies to a database.

    Raises NewerDatabase if the database records a step of a newer version. Without a version in the record
    `sqlite/migrations.py` refuses it.
    """
    path = data_dir / name
    if not path.is_file() or not path.stat().st_size:
        return []
    with open_readonly(path) as connection:
        recorded_steps = read_recorded_steps(connection, name)
    if recorded_steps is None:
        return []
    if recorded_steps - set(steps) and recorded is not None and version_record.is_newer(recorded):
        raise version_record.make_refusal(data_dir, recorded, _describe_way_back(data_dir, recorded))
    return [step for step in steps if step not in recorded_steps]


def _describe_way_back(data_dir: Path, version: str) -> str:
    folder = get_copy_folder(data_dir, version)
    if folder.is_dir():
        return f"To go back to the data before {version}, run `{_way_back_command(folder)}`."
    return f"To go back to older data, restore a backup that was made before {version}."


def _way_back_command(folder: Path) -> str:
    return f"switchroom restore {folder.absolute()} --replace"


def _copy(data_dir: Path, schemas: Schemas, version: str, print_line: Callable[[str], None]) -> None:
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


def describe_changes(data_dir: Path, schemas: Schemas) -> list[str]:
    """Describe what a start of this version would change, one line each.

    Changes nothing. Raises NewerDatabase and other StorageErrors.
    """
    recorded = version_record.read(data_dir)
    lines = [
        f"{name}: migration step “{step}”"
        for name, steps in schemas.items()
        for step in find_pending_steps(data_dir, name, steps, recorded)
    ]
    if recorded != __version__ and _is_complete(data_dir, schemas):
        lines.append(
            f"the data of Switchroom {recorded or version_record.UNRECORDED} becomes that of {__version__}:"
            " new tables, columns and indexes are added"
        )
    if _needs_copy(data_dir, schemas, recorded):
        size = sum((data_dir / name).stat().st_size for name in schemas) / 1e6
        free = shutil.disk_usage(data_dir).free / 1e6
        lines.append(
            f"{get_copy_folder(data_dir)}: the databases are copied there first ({size:,.1f} MB;"
            f" {free:,.0f} MB are free)"
        )
    return lines
