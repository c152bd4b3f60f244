"""`verify`: check databases, stored content, files, and applied webhooks.

Read-only; can run while `serve` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

from integration.core import clock
from integration.core.errors import StorageError
from integration.core.process_lock import find_writer
from integration.maintenance.content_checks import REBUILD_ADVICE, ContentChecks, Finding, Progress
from integration.maintenance.manifest import DATABASES
from integration.mirror.derived.declaration import Rules
from integration.mirror.page_queries import archive_queries
from integration.mirror.sync_state import scrub_log
from integration.sqlite import database_files
from integration.sqlite.readers import open_readonly
from integration.sync.files import file_check

APPLY_GRACE = timedelta(seconds=60)
"""Age below which an unapplied webhook is not a finding while `serve` runs."""

FILES_PER_READ = 1000
"""Files of one query, which bounds the memory."""

DATABASE_ADVICE = {
    "house.db": "Stop Switchroom and restore house.db from a backup.",
    "inbox.db": "Stop Switchroom and restore inbox.db from a backup.",
    "mirror.db": REBUILD_ADVICE,
}
"""What to do about a database with faults."""


class Verification:
    """One verification.

    `find_faults()` yields the findings; `notes` collects lines that are none. `is_quick`: read neither files
    nor content. `is_deep`: compute all derived rows, not samples.
    """

    def __init__(
        self,
        data_dir: Path,
        rules: Rules,
        *,
        is_quick: bool = False,
        is_deep: bool = False,
        progress: Progress = lambda _what, _done, _total: None,
    ) -> None:
        self._data_dir = data_dir
        self._is_quick = is_quick
        self._is_deep = is_deep
        self._progress = progress
        self._content = ContentChecks(data_dir, rules, progress=progress)
        self.files = 0
        self.notes: list[str] = []

    def find_faults(self) -> Iterator[Finding]:
        intact_databases = set()
        for name in DATABASES:
            self._progress(f"checking {name}", 0, 1)
            faults = database_files.find_faults(self._data_dir / name)
            yield from (Finding(f"{name}: {fault}", advice=DATABASE_ADVICE[name]) for fault in faults)
            if not faults:
                intact_databases.add(name)
        for required_databases, check in self._list_checks():
            if required_databases <= intact_databases:
                try:
                    yield from check()
                except StorageError as error:
                    yield Finding(str(error))

    def _list_checks(self) -> list[tuple[set[str], Callable[[], Iterator[Finding]]]]:
        """Return the checks of intact databases, with the databases they read."""
        content_checks: list[tuple[set[str], Callable[[], Iterator[Finding]]]] = [
            ({"inbox.db"}, self._content.check_webhooks),
            ({"mirror.db"}, self._content.check_records),
            ({"mirror.db"}, self._content.check_events),
            ({"mirror.db"}, partial(self._content.check_derived, sampled=not self._is_deep)),
        ]
        return [
            *([] if self._is_quick else content_checks),
            ({"mirror.db"}, self._check_archive),
            ({"mirror.db", "inbox.db"}, self._check_applied),
        ]

    def _check_archive(self) -> Iterator[Finding]:
        """Check every file that mirror.db lists as present."""
        path = self._data_dir / "mirror.db"
        with open_readonly(path) as connection:
            total = scrub_log.get_archive_state(connection).file_count
            kind, record_id = "", 0
            # Each read is short: an open statement would hold a snapshot for hours and let the WAL grow.
            while batch := scrub_log.list_after(connection, kind, record_id, FILES_PER_READ):
                for file in batch:
                    self._progress("files", self.files, total)
                    self.files += 1
                    fault = file_check.find_fault(self._data_dir, file, quick=self._is_quick)
                    if fault is not None and scrub_log.is_unchanged(connection, file):
                        yield Finding(f"{file.path}: {fault}", ["file", file.kind, file.record_id])
                kind, record_id = batch[-1].kind, batch[-1].record_id
        self._progress("files", self.files, total)

    def _check_applied(self) -> Iterator[Finding]:
        """Compare the webhooks in inbox.db with those that mirror.db has applied."""
        inbox_path = self._data_dir / "inbox.db"
        is_serving = find_writer(self._data_dir, "verify") is not None
        received_before = clock.utc_text(clock.now() - APPLY_GRACE) if is_serving else "9999"
        with open_readonly(self._data_dir / "mirror.db") as connection:
            unapplied = archive_queries.find_unapplied_webhooks(connection, inbox_path, received_before)
            missing_seq = archive_queries.find_seq_beyond_inbox(connection, inbox_path)
        if unapplied.count:
            line = (
                f"inbox.db: {unapplied.count:,} webhooks are stored but not applied,"
                f" the first is number {unapplied.seq} of {unapplied.received_at} UTC"
            )
            if is_serving:
                yield Finding(f"{line}; `switchroom replay --since '{unapplied.received_at}'` applies them")
            else:
                self.notes.append(f"{line}; `switchroom serve` applies them when it starts")
        if missing_seq:
            yield Finding(
                f"inbox.db: older than mirror.db, which has applied webhook number {missing_seq};"
                " the webhooks in between are lost unless you restore both from one backup;"
                " `switchroom serve` numbers new webhooks above that number"
            )
