"""Checkpoints of the write-ahead log (WAL), made by the writer.

Automatic checkpoints of SQLite do not report a failing disk, and delay the results of a commit.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from integration.core import clock
from integration.core.errors import StorageBroken
from integration.sqlite.errors import translate_error

log = logging.getLogger(__name__)

SIZE_LIMIT_BYTES = 64 * 1024 * 1024
"""Maximum bytes of the WAL file that are kept on disk after a checkpoint."""

CHECKPOINT_COMMITS = 32
"""Number of commits with changes after which a checkpoint is due."""
CHECKPOINT_ROWS = 1000
"""Number of changed rows after which a checkpoint is due.

Rejected: 8,000. Beside a sync of 50,000 CDRs all checkpoints then take 2.8 s instead of 5.0 s, but each takes
twice as long, and webhooks and pages wait as long.
"""
POSTPONED_FACTOR = 16
"""Factor of both numbers while a job waits: a checkpoint takes as long as several transactions.

The WAL then has about 30 MB.
"""
RESTART_WAIT_MILLISECONDS = 200
"""Longest wait of the writer for readers, at SIZE_LIMIT_BYTES and each time the WAL has doubled since.

SQLite overwrites the WAL from its beginning only in a moment without a reader of an older state. Readers
that overlap leave none: beside `verify` of 5,000,000 CDRs and 250 webhooks a second the WAL grew to 23 GB in
46 minutes.
"""
LOG_SECONDS = 60.0
"""Interval between log lines on failed checkpoints; on a full disk several fail each second."""


class WriteAheadLog:
    """WAL of `connection`, the only connection that writes.

    The WAL of an earlier process is checkpointed at once: after a failed sync its pages may exist only in
    memory, and no commit may depend on them before they are written again. On a full disk the WAL is kept and
    can be read. Raises sqlite3.Error if the disk fails.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        connection.execute(f"PRAGMA journal_size_limit={SIZE_LIMIT_BYTES}")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        self._last_logged_at: float | None = None
        self._page_bytes = int(connection.execute("PRAGMA page_size").fetchone()[0])
        self._restart_bytes = SIZE_LIMIT_BYTES
        self._commits_since_checkpoint = 0
        self._checkpointed_changes = self._last_changes = connection.total_changes
        self.checkpoint()

    def checkpoint_if_due(self, *, is_job_waiting: bool = False) -> None:
        """Count a commit, and checkpoint if CHECKPOINT_COMMITS or CHECKPOINT_ROWS is reached.

        Called after the results of the commit were delivered. While a job waits, a checkpoint is postponed,
        up to POSTPONED_FACTOR times both numbers. Raises sqlite3.Error if the disk fails.
        """
        total_changes = self._connection.total_changes
        if total_changes == self._last_changes:
            return
        self._last_changes = total_changes
        self._commits_since_checkpoint += 1
        factor = POSTPONED_FACTOR if is_job_waiting else 1
        if (
            self._commits_since_checkpoint < factor * CHECKPOINT_COMMITS
            and total_changes - self._checkpointed_changes < factor * CHECKPOINT_ROWS
        ):
            return
        self._commits_since_checkpoint, self._checkpointed_changes = 0, total_changes
        self.checkpoint()

    def checkpoint(self) -> None:
        """Copy the WAL into the database, as far as readers allow.

        Raises sqlite3.Error if the disk fails. A full disk or the lock of another program is only logged,
        once in LOG_SECONDS; the next checkpoint retries.
        """
        try:
            frames = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
            if frames * self._page_bytes >= self._restart_bytes:
                self.restart(frames * self._page_bytes)
            elif frames * self._page_bytes < SIZE_LIMIT_BYTES:
                self._restart_bytes = SIZE_LIMIT_BYTES
        except sqlite3.Error as error:
            if isinstance(translate_error(error, self._path), StorageBroken):
                raise
            now = clock.monotonic()
            if self._last_logged_at is None or now - self._last_logged_at >= LOG_SECONDS:
                self._last_logged_at = now
                log.warning("%s: checkpoint of the WAL failed: %s", self._path.name, error)

    def restart(self, size: int) -> None:
        """Wait for readers, so that the next commit overwrites the WAL.

        `size` is its size in bytes.
        """
        (busy_timeout,) = self._connection.execute("PRAGMA busy_timeout").fetchone()
        self._connection.execute(f"PRAGMA busy_timeout={RESTART_WAIT_MILLISECONDS}")
        try:
            is_busy = self._connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={busy_timeout}")
        self._restart_bytes = 2 * size if is_busy else SIZE_LIMIT_BYTES
