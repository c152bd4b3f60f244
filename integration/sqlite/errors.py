"""Translation of SQLite errors to StorageError."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeGuard

from integration.core.errors import StorageBroken, StorageBusy, StorageDamaged, StorageError, StorageFull

STORAGE_FAILURES = (StorageError, sqlite3.Error)
"""Errors of `Database.write` when it cannot store.

Errors of a single statement are not translated.
"""


DAMAGED_MESSAGE = "A database is damaged. Run `switchroom doctor`, which names the file and what to do."


def translate_error(error: sqlite3.Error, path: Path) -> StorageError:
    """Return the StorageError for an SQLite error.

    The message has the next step where one is available.
    """
    primary = find_primary_code(error)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageBusy(
            f"{path.name}: another program holds the write lock. End that program or try again later."
        )
    if primary == sqlite3.SQLITE_FULL:
        return StorageFull(f"{path.name}: the disk is full. Free space on the disk of {path.parent}.")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StorageError(
            f"{path} cannot be opened. Check that the folder exists and that this user can write there."
        )
    if primary == sqlite3.SQLITE_READONLY:
        return StorageError(f"{path} cannot be written. Check its owner and permissions.")
    if primary == sqlite3.SQLITE_IOERR:
        return StorageBroken(
            f"{path.name}: {error}. Run `switchroom verify`, and restore a backup if it reports findings."
        )
    if is_damage(error):
        return StorageDamaged(f"{path.name}: {error}. Run `switchroom doctor` for advice.")
    return StorageError(f"{path.name}: {error}")


def find_primary_code(error: BaseException) -> int | None:
    """Return the primary result code of an SQLite error, or None."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_damage(error: BaseException) -> TypeGuard[sqlite3.Error]:
    """Return whether SQLite reports an invalid page or file header."""
    return find_primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
