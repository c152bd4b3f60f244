"""`verify`: check databases, archived files, and that all webhooks were applied.

Read-only; can run while `serve` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from integration.core import clock
from integration.core.errors import StorageError
from integration.core.process_lock import find_writer
from integration.maintenance.manifest import DATABASES
from integration.mirror.page_queries import archive_queries
from integration.sqlite import database_files
from integration.sqlite.readers import open_readonly
from integration.sync.files import file_check

APPLY_GRACE = timedelta(seconds=60)
"""Age below which an unapplied webhook is not a finding while `serve` runs."""

Progress = Callable[[str, int, int], None]


class Verification:
    """One verification.

    `find_faults()` yields a line per finding; `notes` collects lines that are none.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        quick: bool = False,
        progress: Progress = lambda _what, _done, _total: None,
    ) -> None:
        self._data_dir = data_dir
        self._quick = quick
        self._progress = progress
        self.files = 0
        self.notes: list[str] = []

    def find_faults(self) -> Iterator[str]:
        intact_databases = set()
        for name in DATABASES:
            self._progress(f"checking {name}", 0, 1)
            faults = database_files.find_faults(self._data_dir / name)
            yield from (f"{name}: {fault}" for fault in faults)
            if not faults:
                intact_databases.add(name)
        if "mirror.db" in intact_databases:
            yield from self._check_archive()
        if {"mirror.db", "inbox.db"} <= intact_databases:
            yield from self._check_webhooks()

    def _check_archive(self) -> Iterator[str]:
        """Check every file that mirror.db lists as present."""
        path = self._data_dir / "mirror.db"
        try:
            # Read all rows first: one open statement would hold a snapshot for hours and let the WAL grow.
            with open_readonly(path) as connection:
                rows = list(archive_queries.iterate_files(connection))
            for index, row in enumerate(rows):
                self._progress("files", index, len(rows))
                fault = file_check.find_fault(self._data_dir, row, quick=self._quick)
                if fault is not None:
                    with open_readonly(path) as connection:
                        if archive_queries.is_unchanged(connection, row):
                            yield f"{row.path}: {fault}"
            self.files = len(rows)
            self._progress("files", len(rows), len(rows))
        except StorageError as error:
            yield str(error)

    def _check_webhooks(self) -> Iterator[str]:
        """Compare the webhooks in inbox.db with those that mirror.db has applied."""
        inbox_path = self._data_dir / "inbox.db"
        is_serving = find_writer(self._data_dir) is not None
        received_before = clock.utc_text(clock.now() - APPLY_GRACE) if is_serving else "9999"
        try:
            with open_readonly(self._data_dir / "mirror.db") as connection:
                unapplied = archive_queries.find_unapplied_webhooks(connection, inbox_path, received_before)
                missing_seq = archive_queries.find_seq_beyond_inbox(connection, inbox_path)
        except StorageError as error:
            yield str(error)
            return
        if unapplied.count:
            line = (
                f"inbox.db: {unapplied.count:,} webhooks are stored but not applied,"
                f" the first is number {unapplied.seq} of {unapplied.received_at} UTC"
            )
            if is_serving:
                yield f"{line}; `switchroom replay --since '{unapplied.received_at}'` applies them"
            else:
                self.notes.append(f"{line}; `switchroom serve` applies them when it starts")
        if missing_seq:
            yield (
                f"inbox.db: older than mirror.db, which has applied webhook number {missing_seq};"
                " the webhooks in between are lost unless you restore both from one backup;"
                " `switchroom serve` numbers new webhooks above that number"
            )
