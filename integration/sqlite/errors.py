"""SQLite's errors as StorageError."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from integration.core.errors import StorageBroken, StorageBusy, StorageError, StorageFull

STORAGE_FAILURES = (StorageError, sqlite3.Error)
"""What `Database.write` raises when it cannot store. Errors of one statement arrive as SQLite raised them."""


def translate_error(error: sqlite3.Error, path: Path) -> StorageError:
    """SQLite's error as one of ours, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StorageBusy(f"{path.name}: another program holds the write lock; try again in a moment")
    if primary == sqlite3.SQLITE_FULL:
        return StorageFull(f"{path.name}: the disk is full; make room in {path.parent}")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StorageError(f"{path}: can't be opened; does the folder exist, and may this user write there?")
    if primary == sqlite3.SQLITE_READONLY:
        return StorageError(f"{path}: can't be written; check its owner and permissions")
    if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StorageBroken(f"{path.name}: {error}; run `switchroom verify`, restore a backup if it fails")
    return StorageError(f"{path.name}: {error}")
