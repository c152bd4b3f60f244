"""`restore`: put a backup in the place of what data_dir holds, which is moved aside and never deleted.

Everything is copied and checked inside data_dir first, under a name of its own; only then are names changed,
so that a backup that turns out to be damaged changes nothing. The contents are moved, not data_dir itself,
which may be a mount point.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from integration.core import atomic_files, clock, process_lock
from integration.core.commands import SOCKET_FILE
from integration.core.errors import SwitchroomError
from integration.maintenance import manifest
from integration.maintenance.manifest import DATABASES, Entry
from integration.mirror.page_queries import archive_queries
from integration.sqlite import database_files

PRESERVED_NAMES = frozenset({process_lock.LOCK_FILE, SOCKET_FILE, "backups"})
"""What in data_dir is neither data to be replaced nor a reason to refuse."""

ASIDE_PREFIX = "before-restore-"
_PARTIAL_FOLDER = "restore.part"

Progress = Callable[[str, int, int], None]


class BackupDamaged(SwitchroomError):
    """The backup is not what its manifest says. `faults` has a line for each file at fault."""

    def __init__(self, source: Path, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            f"{source}: {len(self.faults)} of its files are damaged; nothing was changed."
            " Take another backup, or leave out damaged recordings with --skip-damaged"
        )


@dataclass(slots=True)
class RestoreResult:
    """`backup_created_at`: when the backup was taken (UTC text). `previous_data_dir`: where the old contents
    are, None if there were none. `skipped_files`: a line for each damaged file of the archive that was not
    restored."""

    backup_created_at: str
    files: int = 0
    bytes: int = 0
    previous_data_dir: Path | None = None
    skipped_files: list[str] = field(default_factory=list)


def restore(
    source: Path,
    data_dir: Path,
    *,
    replace: bool = False,
    skip_damaged: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> RestoreResult:
    """Restore the backup `source` into `data_dir`.

    Raises lock.Held while another process works there, SwitchroomError for a data_dir with contents
    (without `replace`) and for what is no backup, Damaged, StorageError.
    """
    backup_manifest = manifest.read(source)
    missing_databases = [
        name for name in DATABASES if name not in {entry.path for entry in backup_manifest.files}
    ]
    if missing_databases:
        raise SwitchroomError(
            f"{source}: lacks {', '.join(missing_databases)}; this backup can't be restored"
        )
    with manifest.explain_os_errors(data_dir):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with process_lock.acquire(data_dir, "restore"):
            existing_paths = _list_contents(data_dir)
            if existing_paths and not replace:
                raise SwitchroomError(
                    f"{data_dir}: is not empty; --replace moves what is there into a folder beside it"
                )
            partial_folder = data_dir / _PARTIAL_FOLDER
            # A restore that was killed left it; the lock says that none is under way.
            if partial_folder.exists():
                shutil.rmtree(partial_folder)
            partial_folder.mkdir(mode=0o700)
            try:
                result = _copy_into(source, partial_folder, backup_manifest, skip_damaged, progress)
            except BaseException:
                shutil.rmtree(partial_folder, ignore_errors=True)
                raise
            if existing_paths:
                result.previous_data_dir = _move_aside(data_dir, existing_paths)
            # Databases last: while they are not all there, `verify` and people see that it was cut short.
            for path in sorted(partial_folder.iterdir(), key=lambda path: path.name in DATABASES):
                path.rename(data_dir / path.name)
            partial_folder.rmdir()
            atomic_files.fsync_path(data_dir)
    return result


def _list_contents(data_dir: Path) -> list[Path]:
    return sorted(
        path
        for path in data_dir.iterdir()
        if path.name not in PRESERVED_NAMES
        and path.name != _PARTIAL_FOLDER
        and not path.name.startswith(ASIDE_PREFIX)
    )


def _copy_into(
    source: Path,
    partial_folder: Path,
    backup_manifest: manifest.Manifest,
    skip_damaged: bool,
    progress: Progress,
) -> RestoreResult:
    """Copy every file of the manifest into `partial_folder`, checking each."""
    result = RestoreResult(backup_manifest.made_at)
    faults: list[str] = []
    for index, entry in enumerate(backup_manifest.files):
        progress("files", index, len(backup_manifest.files))
        target = partial_folder / entry.path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        in_archive = "/" in entry.path
        fault = _copy_entry(source / entry.path, target, entry, link=in_archive)
        if fault is None:
            result.files += 1
            result.bytes += entry.size
        elif in_archive and skip_damaged:
            target.unlink(missing_ok=True)
            result.skipped_files.append(fault)
        else:
            faults.append(fault)
    progress("files", len(backup_manifest.files), len(backup_manifest.files))
    if faults:
        raise BackupDamaged(source, faults)
    archive_queries.renew_epoch(partial_folder / "mirror.db")
    for name in DATABASES:
        progress(f"checking {name}", 0, 1)
        faults += [
            f"{name}: {database_fault}"
            for database_fault in database_files.find_faults(partial_folder / name)
        ]
        atomic_files.fsync_path(partial_folder / name)
    if faults:
        raise BackupDamaged(source, faults)
    for folder, _, _ in os.walk(partial_folder):
        atomic_files.fsync_path(Path(folder))
    return result


def _copy_entry(source: Path, target: Path, entry: Entry, *, link: bool) -> str | None:
    """Bring one file over, as a second name for the same bytes where that is allowed and the filesystem can.
    Returns what is wrong with it."""
    if source.is_symlink() or not source.is_file():
        return f"{entry.path}: is missing from the backup"
    try:
        is_linked = link and manifest.create_hard_link(source, target)
        size, sha256 = atomic_files.hash_file(target) if is_linked else manifest.copy_file(source, target)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{entry.path}: the disk can't read it"
    if size != entry.size:
        return f"{entry.path}: has {size:,} bytes instead of {entry.size:,}"
    if sha256 != entry.sha256:
        return f"{entry.path}: has other content than when it was backed up (sha256 differs)"
    return None


def _move_aside(data_dir: Path, existing_paths: list[Path]) -> Path:
    aside_folder = data_dir / f"{ASIDE_PREFIX}{clock.now():%Y%m%d-%H%M%S}"
    aside_folder.mkdir(mode=0o700)
    # Databases first and each with its -wal: a database without its own, or with another's, is not itself.
    for path in sorted(existing_paths, key=lambda path: (path.suffix != ".db", path.name)):
        path.rename(aside_folder / path.name)
    atomic_files.fsync_path(aside_folder)
    return aside_folder
