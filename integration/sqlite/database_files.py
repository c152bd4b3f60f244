"""Database files as a whole: copy one while it is written, examine one.

Beside `database.py`, which is for the process that writes. Everything here works next to that process and
never writes or checkpoints what it looks at (a checkpoint from a second connection can lose
committed pages before SQLite 3.51.3).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from integration.core.errors import StorageError
from integration.sqlite.errors import translate_error
from integration.sqlite.readers import open_readonly

MIN_SAFE_SQLITE_VERSION = (3, 51, 3)
"""The first version whose commits can't lose pages to a checkpoint from another connection."""

COPY_PAGES = 4096
"""Pages (of 4 KiB, usually) between two reports of progress."""

CHUNK_BYTES = 1 << 22
OVERLAP_BYTES = 256
"""Bytes read at a time, and read twice where two readings meet."""

ProgressCallback = Callable[[int, int], None]
"""Called with what is done and the total."""


def copy_database(
    source: Path, target: Path, on_progress: ProgressCallback = lambda _done, _total: None
) -> None:
    """One consistent state of `source`, as it was when this began, in the new file `target`.

    `target` needs no -wal beside it. It is not synced to disk yet. Raises StorageError.

    The pages are copied as they are. `VACUUM INTO` is rejected: it may give rows of tables without an
    INTEGER PRIMARY KEY other numbers, which a search index refers to.
    """
    with open_readonly(source) as source_connection:
        # The open read transaction holds the state still; without it, every commit of the writer would
        # make the copy begin again, for ever under load.
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


def count_matches(path: Path, pattern: re.Pattern[bytes]) -> int:
    """How often the pattern stands in the bytes of a file, read as they are on disk; 0 where there is none.
    Raises OSError."""
    total, overlap = 0, b""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            # The end of one piece again before the next: what stands across the two is found once.
            piece = overlap + chunk
            total += sum(1 for match in pattern.finditer(piece) if match.end() > len(overlap))
            overlap = piece[-OVERLAP_BYTES:]
    return total


def find_faults(path: Path) -> list[str]:
    """What is wrong inside the database, a line each; empty if nothing is."""
    if not path.is_file():
        return ["is missing"]
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
