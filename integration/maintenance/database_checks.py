"""Health checks and daily check of the databases; report on damaged ones."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from integration.context import AppContext
from integration.core.errors import RepairNeeded, StorageBroken, StorageDamaged, StorageError
from integration.sqlite import damage
from integration.sqlite.database import Database
from integration.sqlite.errors import is_damage

log = logging.getLogger(__name__)

FACT = "damaged databases"
"""Name of the fact with the names of the files that were put aside."""

JOB_NAME = "content of databases"
"""Job that reads all pages of the databases."""
JOB_INTERVAL_SECONDS = 86400.0
BYTES_PER_SECOND, MAX_DELAY_SECONDS = 15e6, 300.0
"""Bytes of the databases for which the first run starts a second later, and its latest time after the start.

With a million CDRs it reads 4.4 GB, and pages opened just after a start would wait for the disk. With few
data it reads them at once.
"""
FILES_JOB, FILES_JOB_SECONDS = "files of databases", 60.0
"""Job that finds files which another program deleted or replaced, and its interval."""
REFUSAL_SECONDS = 1.0
"""Seconds from the end of writing to that of the worker, in which requests get their responses."""
REPLACEABLE_DATABASES = ("inbox.db", "mirror.db")
"""Databases whose damaged file the next start replaces."""


def register(context: AppContext) -> None:
    """Register the health checks of the databases, and report damaged files.

    A failed writer makes `/readyz` 503. Damage or a failed listener makes it degraded, because webhooks are
    still stored.
    """
    health = context.health
    for database in _list_databases(context):
        health.probe(database.name, partial(_find_database_problem, context, database), essential=True)
        health.probe(f"content of {database.name}", partial(_find_damage, database))
        health.probe(f"listeners of {database.name}", partial(getattr, database, "listener_error"))
    data_dir = context.settings.storage.data_dir
    health.provide_fact(FACT, lambda: list_damaged_names(data_dir) or None)


def schedule(context: AppContext) -> None:
    """Schedule the check of all pages, after the start and daily, and that of the files, every minute.

    SQLite reports a damaged page only when a statement needs it, which can be months later.
    """
    context.scheduler.every(
        FILES_JOB,
        FILES_JOB_SECONDS,
        _check_files,
        context,
        executor="timers",
        first_after=FILES_JOB_SECONDS,
    )
    size = sum(database.path.stat().st_size for database in _list_databases(context))
    context.scheduler.every(
        JOB_NAME,
        JOB_INTERVAL_SECONDS,
        _check_content,
        context,
        executor="maintenance",
        first_after=min(size / BYTES_PER_SECOND, MAX_DELAY_SECONDS),
        retries=True,
    )


def list_damaged_names(data_dir: Path) -> list[str]:
    """List the names of damaged files that were put aside."""
    return [path.name for path in damage.list_put_aside(data_dir)]


def mark_damaged_databases(data_dir: Path, error: Exception) -> list[str]:
    """Mark the damaged databases that the next start replaces.

    Checks the files only if `error` reports damage. Returns their names. Raises RepairNeeded for a damaged
    house.db, StorageError if a file cannot be read, and OSError.
    """
    if not isinstance(error, StorageDamaged) and not is_damage(error):
        return []
    path = data_dir / "house.db"
    if path.exists() and (finding := damage.find_damage(path)) is not None:
        raise RepairNeeded(
            f"{path.name} is damaged ({finding}). {describe_repair(path.name, data_dir.absolute())}"
        )
    names = []
    for name in REPLACEABLE_DATABASES:
        path = data_dir / name
        finding = damage.find_damage(path) if path.exists() else None
        if finding is not None:
            damage.mark_damaged(path, f"{error}: {finding}")
            names.append(name)
    return names


def describe_repair(name: str, folder: str | Path = "data_dir") -> str:
    """Return what to do about a damaged house.db."""
    return (
        f"Stop Switchroom, move {name}, {name}-wal and {name}-shm out of {folder}, copy {name} from the"
        " newest backup into this folder, and start Switchroom."
    )


def _list_databases(context: AppContext) -> tuple[Database, ...]:
    return context.inbox.database, context.mirror_db, context.app_db


def _check_content(context: AppContext) -> None:
    """Read all pages of the databases. Raises StorageError."""
    stopping = context.scheduler.stopping
    for database in _list_databases(context):
        try:
            database.damage_watch.check(stopping.is_set)
        except StorageError:
            if stopping.is_set():
                return
            raise


def _check_files(context: AppContext) -> None:
    """Save the databases whose files were deleted or replaced, then end this worker.

    The next worker opens the files at the paths. Raises sqlite3.Error and OSError.
    """
    replaced: list[Database] = []
    while found := [db for db in _list_databases(context) if db not in replaced and db.find_replaced_files()]:
        for database in found:
            log.critical("%s: another program has deleted or replaced files; saving", database.name)
            database.save_replaced_files()
        replaced += found
    if not replaced or context.scheduler.stopping.wait(REFUSAL_SECONDS):
        return
    if (end_process := replaced[0].on_broken) is not None:
        end_process(StorageBroken("all commits are saved; the next worker opens the files again"))


def _find_database_problem(context: AppContext, database: Database) -> str | None:
    if replaced := database.find_replaced_files():
        context.scheduler.nudge(FILES_JOB)
        names = ", ".join(path.name for path in replaced)
        return (
            f"Another program has deleted or replaced {names}. Webhooks are refused until all commits are"
            " saved and the files are opened again, in a moment."
        )
    return None if database.is_healthy else "The writer has failed. Restart Switchroom."


def _find_damage(database: Database) -> str | None:
    if database.damage is None:
        return None
    if database.name in REPLACEABLE_DATABASES:
        return f"{database.damage}. The file is being replaced; webhooks are stored."
    return f"{database.damage}. {describe_repair(database.name, database.path.parent.absolute())}"
