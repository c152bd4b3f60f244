"""The write-ahead log of a database, copied into it by the writer that adds to it.

SQLite's own checkpoints keep quiet about a disk that fails, and hold up a commit's answers.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from integration.core.errors import StorageBroken
from integration.sqlite.errors import translate_error

log = logging.getLogger(__name__)

SIZE_LIMIT_BYTES = 64 * 1024 * 1024
"""Bytes of log that are kept on disk once it was copied."""

CHECKPOINT_COMMITS = 32
CHECKPOINT_ROWS = 1000
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
        connection.execute(f"PRAGMA journal_size_limit={SIZE_LIMIT_BYTES}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        self._commits_since_checkpoint = 0
        self._checkpointed_changes = self._last_changes = connection.total_changes
        self.checkpoint()

    def checkpoint_if_due(self) -> None:
        """Once everybody has their answers. Raises sqlite3.Error for a disk that fails."""
        total_changes = self._connection.total_changes
        if total_changes == self._last_changes:
            return
        self._last_changes = total_changes
        self._commits_since_checkpoint += 1
        if (
            self._commits_since_checkpoint < CHECKPOINT_COMMITS
            and total_changes - self._checkpointed_changes < CHECKPOINT_ROWS
        ):
            return
        self._commits_since_checkpoint, self._checkpointed_changes = 0, total_changes
        self.checkpoint()

    def checkpoint(self) -> None:
        """Copy as much of the log as no reader needs where it is. Raises sqlite3.Error for a disk that fails;
        a full one, or somebody else's lock, only puts it off."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            if isinstance(translate_error(error, self._path), StorageBroken):
                raise
            log.warning("%s: the log could not be copied into the database: %s", self._path.name, error)
