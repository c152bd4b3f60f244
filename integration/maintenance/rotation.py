"""Scheduled backups: a new one once the newest is `backup.every_hours` old, then the oldest beyond
`backup.keep` go. What a person asked for is neither counted nor removed.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from integration.core import clock
from integration.core.errors import SwitchroomError
from integration.core.health import Health
from integration.maintenance import backup, manifest
from integration.maintenance.manifest import Manifest
from integration.settings.data_dir_secrets import ACCOUNT_FILE
from integration.settings.model import Settings

log = logging.getLogger(__name__)

NAME = "backups"
"""As what the schedule shows in the health report."""

LOOK_SECONDS = 900.0
"""Between two looks at whether one is due, and between a failure and the next try."""


class _Stopped(SwitchroomError):
    """The process is about to end."""


class Rotation:
    """`look()` is to be called again and again, by one thread."""

    def __init__(self, settings: Settings, health: Health) -> None:
        self._data_dir = settings.storage.data_dir
        self._dest = backup.destination(settings)
        self._every = timedelta(hours=settings.backup.every_hours)
        self._keep = settings.backup.keep
        self._health = health
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Give up the backup that is being made; what it wrote is removed."""
        self._stopping.set()

    def look(self) -> None:
        """Make a backup if one is due. Raises SwitchroomError for whatever kept it from being made whole; it
        is due again then."""
        if clock.now() < self._due_at():
            return
        try:
            made = backup.make(self._data_dir, self._dest, self._go_on, scheduled=True)
        except backup.UnderWay:
            # A person's. Ours is due still, and made at the next look.
            return
        except _Stopped:
            return
        log.info("%s: %d files, %d bytes", made.path.name, made.files, made.bytes)
        for note in made.notes:
            log.warning("%s: %s", made.path.name, note)
        wary = f"; {len(made.notes)} files need a look: {made.notes[0]}" if made.notes else ""
        self._health.fact("last scheduled backup", made.path.name + wary)
        self._remove_old()

    def _go_on(self, _what: str, _done: int, _total: int) -> None:
        """Called all through the work: it is alive."""
        self._health.beat(NAME)
        if self._stopping.is_set():
            raise _Stopped("stopped")

    def _due_at(self) -> datetime:
        now = clock.now()
        # One from the future was dated by a clock that has been set right since.
        made = [at for _, kept in self._ours() if (at := clock.parse_stamp(kept.made_at)) and at <= now]
        return max(made, default=self._begun()) + self._every

    def _begun(self) -> datetime:
        """When there came to be something to back up."""
        try:
            return datetime.fromtimestamp((self._data_dir / ACCOUNT_FILE).stat().st_mtime, UTC)
        except FileNotFoundError:
            return clock.now()

    def _ours(self) -> Iterator[tuple[Path, Manifest]]:
        """Finished backups that the schedule made of this account, oldest first. Others may back up to the
        same place."""
        try:
            account = manifest.digest(self._data_dir / ACCOUNT_FILE)[1]
        except FileNotFoundError:
            return
        for folder in sorted(self._dest.glob(backup.NAMES)):
            try:
                found = manifest.read(folder)
            except SwitchroomError as error:
                # The System page lists it with its fault; what can't be read is no backup to count on.
                log.debug("%s", error)
                continue
            if found.scheduled and any(e.path == ACCOUNT_FILE and e.sha256 == account for e in found.files):
                yield folder, found

    def _remove_old(self) -> None:
        for folder, _ in list(self._ours())[: -self._keep]:
            with manifest.telling(folder):
                # Under its name it would pass for whole while it is being removed, and after a kill.
                (folder / backup.OWNER).write_text(backup.owner_of(self._data_dir), "utf-8")
                going = folder.rename(folder.with_name(folder.name + ".part"))
                shutil.rmtree(going)
            log.info("%s: removed, %d are kept", folder.name, self._keep)
