"""Scheduled backups: create one every `backup.every_hours`, keep the newest `backup.keep`.

Backups made by a user are neither counted nor removed.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from integration.core import atomic_files, clock
from integration.core.errors import SwitchroomError
from integration.core.health import Health
from integration.maintenance import backup, manifest
from integration.maintenance.manifest import Manifest
from integration.settings.data_dir_secrets import ACCOUNT_FILE
from integration.settings.model import Settings

log = logging.getLogger(__name__)

HEALTH_NAME = "backups"
"""Name of the health check of scheduled backups."""

CHECK_SECONDS = 900.0
"""Seconds between checks for a due backup, and between a failure and the next attempt."""


class _StopRequested(SwitchroomError):
    """The process stops."""


class BackupRotation:
    """Scheduled backups. One thread calls `run_if_due()` periodically."""

    def __init__(self, settings: Settings, health: Health) -> None:
        self._data_dir = settings.storage.data_dir
        self._dest = backup.get_destination(settings)
        self._interval = timedelta(hours=settings.backup.every_hours)
        self._keep_count = settings.backup.keep
        self._health = health
        self._stopping = threading.Event()
        self.newest_created_at: datetime | None = None
        """Time of the newest scheduled backup that was found or made, None without one."""
        self._newest_folder: Path | None = None
        self.is_last_attempt_ok = True

    def stop(self) -> None:
        """Abort a running backup and remove its files."""
        self._stopping.set()

    def run_if_due(self) -> None:
        """Create a backup if one is due.

        Raises SwitchroomError if it fails; it is then still due.
        """
        if self._is_newest_young() or clock.now() < self._get_due_at():
            return
        try:
            finished = backup.create(self._data_dir, self._dest, self._on_progress, scheduled=True)
        except backup.BackupRunning:
            # A user's backup is running. The scheduled one is still due at the next check.
            return
        except _StopRequested:
            return
        except Exception:
            self.is_last_attempt_ok = False
            raise
        self.newest_created_at, self.is_last_attempt_ok = clock.now(), True
        self._newest_folder = finished.path
        log.info("%s: %d files, %d bytes", finished.path.name, finished.files, finished.bytes)
        for note in finished.notes:
            log.warning("%s: %s", finished.path.name, note)
        warning = f"; {len(finished.notes)} files to check: {finished.notes[0]}" if finished.notes else ""
        self._health.set_fact("last scheduled backup", finished.path.name + warning)
        self._remove_old()

    def _on_progress(self, _what: str, _done: int, _total: int) -> None:
        """Record a heartbeat. Raise _StopRequested if the process stops."""
        self._health.beat(HEALTH_NAME)
        if self._stopping.is_set():
            raise _StopRequested("stopped")

    def _is_newest_young(self) -> bool:
        """Return whether the newest backup is stored and no backup is due.

        Manifests are not read: those of many files have tens of megabytes.
        """
        return (
            self.newest_created_at is not None
            and self._newest_folder is not None
            and self.newest_created_at <= clock.now() < self.newest_created_at + self._interval
            and (self._newest_folder / manifest.MANIFEST_FILE).is_file()
        )

    def _get_due_at(self) -> datetime:
        now = clock.now()
        # Ignore backups dated in the future: the clock was wrong when they were made.
        created_times = [
            (created_at, folder)
            for folder, stored_manifest in self._list_scheduled_backups()
            if (created_at := clock.parse_utc(stored_manifest.made_at)) and created_at <= now
        ]
        self.newest_created_at, self._newest_folder = max(created_times, default=(None, None))
        return (self.newest_created_at or self._get_first_data_time()) + self._interval

    def _get_first_data_time(self) -> datetime:
        """Return the time at which data_dir got its first data."""
        try:
            return datetime.fromtimestamp((self._data_dir / ACCOUNT_FILE).stat().st_mtime, UTC)
        except FileNotFoundError:
            return clock.now()

    def _list_scheduled_backups(self) -> Iterator[tuple[Path, Manifest]]:
        """Yield finished scheduled backups of this account, oldest first.

        Other installations may use the same folder.
        """
        try:
            account_sha256 = atomic_files.hash_file(self._data_dir / ACCOUNT_FILE)[1]
        except FileNotFoundError:
            return
        for folder in sorted(self._dest.glob(backup.BACKUP_NAME_PATTERN)):
            try:
                stored_manifest = manifest.read(folder)
            except SwitchroomError as error:
                # The page System lists it with its error. An unreadable backup does not count.
                log.debug("%s", error)
                continue
            if stored_manifest.scheduled and any(
                entry.path == ACCOUNT_FILE and entry.sha256 == account_sha256
                for entry in stored_manifest.files
            ):
                yield folder, stored_manifest

    def _remove_old(self) -> None:
        for folder, _ in list(self._list_scheduled_backups())[: -self._keep_count]:
            with manifest.explain_os_errors(folder):
                # Rename it first: under its own name a partly removed backup would look complete.
                (folder / backup.OWNER_FILE).write_text(backup.format_owner(self._data_dir), "utf-8")
                partial_folder = folder.rename(folder.with_name(folder.name + ".part"))
                shutil.rmtree(partial_folder)
            log.info("%s: removed, the newest %d are kept", folder.name, self._keep_count)
