"""Larger page cache of the writer while many rows are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from integration.core.errors import StorageError
from integration.sqlite.database import Database

CACHE_KIB = 16 * 1024
"""Page cache in KiB. SQLite's default is DEFAULT_KIB.

The initial sync of 300,000 CDRs with their calls takes 78 s instead of 88 s: fewer pages of indexes are read
again and written to the WAL before a commit. 32 MiB were no faster.
"""
DEFAULT_KIB = 2000


@contextmanager
def bulk_cache(database: Database) -> Iterator[None]:
    """Give the writer a page cache of CACHE_KIB during the block. Raises StorageError.

    With two blocks at the same time, the end of the first one returns the memory.
    """
    database.run_exclusive(_grow)
    try:
        yield
    finally:
        # The error of the block, or of the next write, states why the database is closed.
        with suppress(StorageError):
            database.run_exclusive(_shrink)


def _grow(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")


def _shrink(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size=-{DEFAULT_KIB}")
    connection.execute("PRAGMA shrink_memory")
