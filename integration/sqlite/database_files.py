"""Operations on entire database files: online copy, integrity check and loss.

`database.py` is for the writer. The functions here run beside the writer and never write to or checkpoint the
database (before SQLite 3.51.3 a checkpoint from a second connection can lose committed pages).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from integration.core import atomic_files, clock
from integration.core.errors import StorageError
from integration.sqlite.errors import translate_error
from integration.sqlite.readers import open_readonly

MIN_SAFE_SQLITE_VERSION = (3, 51, 3)
"""First version in which a checkpoint from another connection cannot lose committed pages."""

COPY_PAGES = 4096
"""Pages, usually of 4 KiB, between two progress reports."""

CREATED_FILE = "databases-created"
"""File in `data_dir` which shows that its databases were created: one that is missing later is lost."""

ProgressCallback = Callable[[int, int], None]
"""Function that receives the number of copied pages and their total."""


def copy_database(
    source: Path, target: Path, on_progress: ProgressCallback = lambda _done, _total: None
) -> None:
    """Copy a database to the new file `target` while it is written.

    The copy has the state at the start. `target` has no -wal file. It is not synced to disk yet. Raises
    StorageError.

    The pages are copied unchanged. `VACUUM INTO` is rejected: it may change the rowids of tables without an
    INTEGER PRIMARY KEY, to which a search index refers.
    """
    with open_readonly(source) as source_connection:
        # The open read transaction keeps the state. Without it, each commit of the writer would restart the
        # copy, which would never end under load.
        source_connection.execute("BEGIN")
        source_connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        try:
            with closing(sqlite3.connect(target, isolation_level=None)) as target_connection:
                target_connection.execute("PRAGMA synchronous=OFF")
                source_connection.backup(
                    target_connection,
                    pages=COPY_PAGES,
                    progress=lambda _, left, total: on_progress(total - left, total),
                )
                target_connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.Error as error:
            raise translate_error(error, target) from error


def is_empty(path: Path) -> bool:
    """Return whether a file is an empty database for SQLite, without faults.

    A file of 1 byte is one too (`unixFileSize` in os_unix.c of SQLite).
    """
    return path.stat().st_size <= 1


def find_lost_databases(data_dir: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the fault of each lost database by name.

    A database is lost if it was created and now is missing or empty. SQLite would create it in the state of a
    fresh installation.
    """
    if not (data_dir / CREATED_FILE).exists():
        return {}
    faults = {}
    for name in names:
        if not (data_dir / name).exists():
            faults[name] = "was missing"
        elif is_empty(data_dir / name):
            faults[name] = "had 0 bytes" if not (data_dir / name).stat().st_size else "had 1 byte"
    return faults


def record_creation(data_dir: Path) -> None:
    """Record that the databases of `data_dir` exist. Raises StorageError."""
    path = data_dir / CREATED_FILE
    try:
        if not path.exists():
            atomic_files.write_text(path, clock.utc_text() + "\n")
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}. Check its folder.") from error


def find_faults(path: Path) -> list[str]:
    """Check the integrity of a database and return one line per fault."""
    if not path.is_file():
        return ["is missing"]
    if is_empty(path):
        return ["has 0 bytes" if not path.stat().st_size else "has 1 byte"]
    try:
        with open_readonly(path) as connection:
            messages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    except StorageError as error:
        return [str(error).removeprefix(f"{path.name}: ")]
    lines = [line.replace("\n", " ") for line in messages if line != "ok"]
    return lines + [
        f"table {row[0]}: row {row[1]} refers to a missing row of {row[2]}" for row in orphans[:20]
    ]
