"""Backups whose files share their bytes with the archive by hard links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from integration.maintenance import backup


def describe(data_dir: Path, dest: Path) -> str | None:
    """Describe the backups that share files with the archive, or return None."""
    shared_counts = [
        count
        for folder in dest.glob(backup.BACKUP_NAME_PATTERN)
        if (count := _count_shared(data_dir, folder))
    ]
    if not shared_counts:
        return None
    backups = "1 backup shares" if len(shared_counts) == 1 else f"{len(shared_counts)} backups share"
    return (
        f"{backups} up to {max(shared_counts):,} files of the archive with {data_dir} (hard links): a damaged"
        " file is damaged in both. `switchroom backup --copy DEST` writes copies."
    )


def _count_shared(data_dir: Path, folder: Path) -> int:
    return sum(
        status.st_nlink > 1 and _is_same_file(status, data_dir / path)
        for path, status in _iterate_files(folder, folder)
    )


def _iterate_files(folder: Path, top: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _iterate_files(Path(entry.path), top)
        elif entry.is_file(follow_symlinks=False):
            yield Path(entry.path).relative_to(top), entry.stat(follow_symlinks=False)


def _is_same_file(status: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(status, path.stat())
    except OSError:
        return False
