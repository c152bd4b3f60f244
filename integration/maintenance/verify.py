"""`verify`: are the databases sound, are the files what was downloaded, was every webhook applied?

Reads only, beside a running `serve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from integration.core import clock
from integration.core.errors import StorageError
from integration.core.lock_holder import writer
from integration.maintenance.manifest import DATABASES
from integration.mirror.page_queries import archive_queries as archive
from integration.sqlite import database_files
from integration.sync.files import file_check as archived

GRACE = timedelta(seconds=60)
"""A webhook may wait this long to be applied while `serve` runs."""

Progress = Callable[[str, int, int], None]


class Verification:
    """One pass. `findings()` gives a line for each thing at fault; `notes` fills with what is only worth
    knowing."""

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

    def findings(self) -> Iterator[str]:
        sound = set()
        for name in DATABASES:
            self._progress(f"checking {name}", 0, 1)
            faults = database_files.faults(self._data_dir / name)
            yield from (f"{name}: {fault}" for fault in faults)
            if not faults:
                sound.add(name)
        if "mirror.db" in sound:
            yield from self._archive()
        if {"mirror.db", "inbox.db"} <= sound:
            yield from self._webhooks()

    def _archive(self) -> Iterator[str]:
        """Every file that mirror.db says is here."""
        path = self._data_dir / "mirror.db"
        try:
            # One statement over all rows would hold a snapshot for hours, and with it the -wal.
            with database_files.look_at(path) as connection:
                rows = list(archive.kept(connection))
            for number, row in enumerate(rows):
                self._progress("files", number, len(rows))
                finding = archived.fault(self._data_dir, row, quick=self._quick)
                if finding is not None:
                    with database_files.look_at(path) as connection:
                        if archive.still_kept(connection, row):
                            yield f"{row.path}: {finding}"
            self.files = len(rows)
            self._progress("files", len(rows), len(rows))
        except StorageError as error:
            yield str(error)

    def _webhooks(self) -> Iterator[str]:
        """What inbox.db holds against what mirror.db says was applied."""
        inbox = self._data_dir / "inbox.db"
        serving = writer(self._data_dir) is not None
        before = clock.stamp(clock.now() - GRACE) if serving else "9999"
        try:
            with database_files.look_at(self._data_dir / "mirror.db") as connection:
                waiting = archive.waiting(connection, inbox, before)
                ahead = archive.beyond(connection, inbox)
        except StorageError as error:
            yield str(error)
            return
        if waiting.count:
            line = (
                f"inbox.db: {waiting.count:,} webhooks are stored but not applied,"
                f" the first is number {waiting.seq} of {waiting.received_at} UTC"
            )
            if serving:
                yield f"{line}; `switchroom replay --since '{waiting.received_at}'` applies them"
            else:
                self.notes.append(f"{line}; `switchroom serve` applies them when it starts")
        if ahead:
            yield (
                f"inbox.db: is older than mirror.db, which applied webhook number {ahead}; restore both from"
                " one backup, else webhooks yet to come are taken for applied"
            )
