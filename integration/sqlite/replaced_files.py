"""Files of a database that another program deleted or replaced while this process has them open.

The handles still lead to the former files, so later commits would be lost when this process ends. SQLite
itself deletes no file of an open database: locks prevent it when another program closes the database.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from integration.core import atomic_files, clock

_SUFFIXES = ("", "-wal", "-shm")


class OpenFiles:
    """Files of the database at `path`, which was just opened by a connection that writes."""

    def __init__(self, path: Path) -> None:
        self._paths = [path.with_name(path.name + suffix) for suffix in _SUFFIXES]
        self._opened = [_identify(file) for file in self._paths]

    def find_replaced(self) -> list[Path]:
        """Return the paths that lead to another file than when the database was opened, or to none."""
        return [
            file for file, opened in zip(self._paths, self._opened, strict=True) if _identify(file) != opened
        ]

    def save(self, connection: sqlite3.Connection) -> bool:
        """Save all commits to the disk. Returns False while readers of this process prevent it.

        `connection` has the former files open, and nothing writes. Afterwards the database at its path has
        all commits without a -wal. If another database is at the path, the file `NAME.damaged-TIME` has them.
        Do not close `connection` afterwards: SQLite would delete the -wal of the new file. Raises
        sqlite3.Error and OSError.
        """
        database, wal, shm = self._paths
        replaced = self.find_replaced()
        put_aside = database.with_name(f"{database.name}.damaged-{clock.now():%Y%m%d-%H%M%S}")
        if database in replaced:
            put_aside.touch(mode=0o600)
            with closing(sqlite3.connect(put_aside)) as target:
                connection.backup(target)
            atomic_files.fsync_path(put_aside)
            for file in {wal, shm}.difference(replaced):
                file.unlink()  # Of the former file: SQLite would apply it to the new one.
        else:
            # Waits for readers, up to the busy timeout.
            is_busy, frames, saved_frames = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if is_busy or saved_frames < frames:
                return False
        if database not in replaced or not database.exists():
            if wal in replaced and wal.exists() and wal.stat().st_size:
                # Commits of another program that ignored the locks. They would hide newer pages.
                wal.rename(f"{put_aside}-wal")
                shm.unlink(missing_ok=True)
            if database in replaced:
                put_aside.rename(database)
        atomic_files.fsync_path(database.parent)
        return True


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
