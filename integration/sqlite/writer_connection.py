"""Connection of the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from integration.sqlite.errors import is_damage, translate_error
from integration.sqlite.wal import WriteAheadLog

BUSY_SECONDS = 3.0
"""Seconds that a write waits for the lock of another program."""


def open_writer(
    path: Path,
    synchronous: str,
    prepare: Callable[[sqlite3.Connection], None],
    register_functions: Callable[[sqlite3.Connection], None] | None,
) -> tuple[sqlite3.Connection, WriteAheadLog]:
    """Open the only connection that writes the file, and its WAL.

    `prepare(connection)` creates or migrates the schema. Raises StorageError.
    """
    try:
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        if register_functions:
            register_functions(connection)
        prepare(connection)
        return connection, WriteAheadLog(connection, path)
    except sqlite3.Error as error:
        if is_damage(error):  # A later close would remove the -wal of the file that replaces this one.
            connection.close()
        raise translate_error(error, path) from error
