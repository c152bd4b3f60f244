"""Copies of data in data_dir: moved-aside data, damaged databases, backups.

An erasure and retention must reach them too. Backups are only found: their manifest lists the digest of each
file, and `restore` refuses a changed one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from integration.core import clock
from integration.maintenance.manifest import DATABASES, MANIFEST_FILE
from integration.maintenance.restore import ASIDE_PREFIX, PARTIAL_FOLDER
from integration.maintenance.upgrade import COPY_PREFIX, KEEP_DAYS
from integration.mirror.privacy.held_records import HeldRecords
from integration.privacy.file_search import search_files
from integration.settings.model import Settings
from integration.sqlite import damage

CopyKind = Literal[
    "data before a restore", "unfinished restore", "data before an upgrade", "damaged database", "backup"
]

_MAX_DEPTH = 5
"""Levels of folders below data_dir that are searched for copies."""
_TIME_SUFFIX = re.compile(r"(\d{8}-\d{6})$")
_SIDE_FILES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class DataCopy:
    """A copy: a folder, or the file of a damaged database."""

    path: Path
    kind: CopyKind

    @property
    def is_backup(self) -> bool:
        return self.kind == "backup"

    @property
    def created_at(self) -> datetime:
        """Time in the name, else the time of the last change."""
        if match := _TIME_SUFFIX.search(self.path.name):
            try:
                return datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
            except ValueError:
                pass
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    def get_name(self, data_dir: Path) -> str:
        """Return the path below `data_dir`."""
        return str(self.path.relative_to(data_dir))

    def list_files(self) -> list[Path]:
        """Return the regular files of the copy."""
        if self.path.is_dir():
            return list(iterate_files(self.path))
        side_files = (self.path.with_name(self.path.name + suffix) for suffix in _SIDE_FILES)
        return [path for path in (self.path, *side_files) if path.is_file()]

    def contains_number(self, e164: str) -> bool:
        """Return whether a file possibly contains the number. Raises OSError and StorageError."""
        return bool(search_files(self.list_files(), [e164], first_only=True))

    def has_held_data(self, held_records: HeldRecords) -> bool:
        """Return whether a file names a held number or leg. Raises OSError and StorageError."""
        if not held_records:
            return False
        ids = held_records.legs | held_records.calls
        return bool(search_files(self.list_files(), held_records.numbers, ids, first_only=True))

    def delete(self) -> None:
        """Delete the copy permanently. Raises OSError."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
            return
        for path in self.list_files():
            path.unlink(missing_ok=True)


def find_copies(data_dir: Path) -> list[DataCopy]:
    """List all copies in `data_dir`, sorted by path."""
    copies = [DataCopy(path, "damaged database") for path in damage.list_put_aside(data_dir)]
    copies += _find_folders(data_dir, _MAX_DEPTH)
    return sorted(copies, key=lambda copy: copy.path)


def find_expired(settings: Settings) -> list[DataCopy]:
    """Return expired copies, also those with data under legal hold.

    Data before a restore is due after `storage.keep_before_restore_days`, data before an upgrade after
    KEEP_DAYS. If retention limits are set, such data and damaged databases are due after the shortest of
    them: all their data is older. Raises OSError.
    """
    retention_days = [days for days in settings.retention.model_dump().values() if days]
    limits: dict[CopyKind, list[float]] = {
        "data before a restore": list(
            filter(None, [*retention_days, settings.storage.keep_before_restore_days])
        ),
        "data before an upgrade": [*retention_days, KEEP_DAYS],
        "damaged database": retention_days,
    }
    return [
        copy
        for copy in find_copies(settings.storage.data_dir)
        if (days := limits.get(copy.kind)) and copy.created_at < clock.now() - timedelta(days=min(days))
    ]


def iterate_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder`, without symbolic links."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _find_folders(folder: Path, depth: int) -> Iterator[DataCopy]:
    for entry in os.scandir(folder):
        if not entry.is_dir(follow_symlinks=False):
            continue
        path = Path(entry.path)
        if entry.name.startswith(ASIDE_PREFIX):
            yield DataCopy(path, "data before a restore")
        elif entry.name == PARTIAL_FOLDER:
            yield DataCopy(path, "unfinished restore")
        elif path.parent.name == "backups" and entry.name.startswith(COPY_PREFIX):
            yield DataCopy(path, "data before an upgrade")
        elif any((path / name).is_file() for name in (MANIFEST_FILE, *DATABASES)):
            yield DataCopy(path, "backup")
        elif depth:
            yield from _find_folders(path, depth - 1)
