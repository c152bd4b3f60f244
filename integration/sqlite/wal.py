"""The write-ahead log of a database, copied into it by the writer that adds to it.

SQLite's own checkpoints keep quiet about a disk that fails, and hold up a commit's answers.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from integration.core.errors import StorageBroken
from integration.sqlite.errors import translate

log = logging.getLogger(__name__)

LIMIT = 64 * 1024 * 1024
"""Bytes of log that are kept on disk once it was copied."""

COMMITS = 32
CHANGES = 1000
"""Commits that changed something, or changed rows, after which the log is copied into the database."""


class WriteAheadLog:
    """The log that `connection`, the only one that writes, adds to.

    What an earlier process left in it is copied at once: after a sync that failed it may stand in memory
    only, and nothing is built on it before it was written anew. On a full disk it stays where it is, and can
    be read. Raises sqlite3.Error for a disk that fails.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        connection.execute(f"PRAGMA journal_size_limit={LIMIT}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        self._uncopied = 0
        self._copied_at = self._changed_at = connection.total_changes
        self.copy()

    def copy_if_grown(self) -> None:
        """Once everybody has their answers. Raises sqlite3.Error for a disk that fails."""
        changed = self._connection.total_changes
        if changed == self._changed_at:
            return
        self._changed_at = changed
        self._uncopied += 1
        if self._uncopied < COMMITS and changed - self._copied_at < CHANGES:
            return
        self._uncopied, self._copied_at = 0, changed
        self.copy()

    def copy(self) -> None:
        """Copy as much of the log as no reader needs where it is. Raises sqlite3.Error for a disk that fails;
        a full one, or somebody else's lock, only puts it off."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            if isinstance(translate(error, self._path), StorageBroken):
                raise
            log.warning("%s: the log could not be copied into the database: %s", self._path.name, error)
