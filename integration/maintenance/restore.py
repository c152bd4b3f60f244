"""`restore`: replace the content of data_dir by a backup.

The old content is moved aside, never deleted.

The backup is first copied to a separate folder in data_dir and checked; only then are files renamed, so a
damaged backup changes nothing. The content is moved instead of data_dir itself, which may be a mount point.
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
from integration.maintenance import manifest, version_record
from integration.maintenance.manifest import DATABASES, Entry
from integration.mirror.page_queries import archive_queries
from integration.sqlite import database_files
from integration.sqlite.migrations import read_recorded_steps, remove_way_back
from integration.sqlite.readers import open_readonly
from integration.workspace import text_back

PRESERVED_NAMES = frozenset({process_lock.LOCK_FILE, SOCKET_FILE, "backups", database_files.CREATED_FILE})
"""Names in data_dir that a restore does not replace and that do not count as content."""

ASIDE_PREFIX = "before-restore-"
"""Start of the names of folders in data_dir with the data that a restore moved aside."""
INBOX = "inbox.db"
PARTIAL_FOLDER = "restore.part"
"""Folder in data_dir of a restore that is running or was killed."""

Progress = Callable[[str, int, int], None]


class BackupDamaged(SwitchroomError):
    """The backup differs from its manifest.

    `faults` has a line for each damaged file.
    """

    def __init__(self, source: Path, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            f"{len(self.faults)} files of the backup {source} are damaged. Nothing was changed."
            " Use another backup, or omit damaged recordings with --skip-damaged."
        )


@dataclass(slots=True)
class RestoreResult:
    """Result of a restore.

    `backup_created_at` is the time of the backup (UTC text). `version` of Switchroom wrote its data.
    `has_archive` is false for the databases before an upgrade. `previous_data_dir` is the folder of the old
    content, None if there was none. `skipped_files` has a line for each damaged archive file that was
    omitted.
    """

    backup_created_at: str
    version: str
    has_archive: bool
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

    The databases before an upgrade replace only the databases. inbox.db is kept if the older version can read
    it, because it has the webhooks that were acknowledged since.

    Raises process_lock.LockHeld while another process uses data_dir, SwitchroomError for a data_dir with
    content (without `replace`) and for an invalid backup, BackupDamaged and StorageError.
    """
    backup_manifest = manifest.read(source)
    missing_databases = [
        name for name in DATABASES if name not in {entry.path for entry in backup_manifest.files}
    ]
    if missing_databases:
        raise SwitchroomError(
            f"The backup {source} has no {', '.join(missing_databases)}. Use another backup."
        )
    with manifest.explain_os_errors(data_dir):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with process_lock.acquire(data_dir, "restore"):
            existing_paths, kept_name = _list_contents(data_dir), None
            if not backup_manifest.has_archive:
                kept_name = INBOX if _can_keep_inbox(source, data_dir) else None
                backup_manifest = backup_manifest.leave_out(kept_name)
                existing_paths = [path for path in existing_paths if _is_replaced(path.name, kept_name)]
            if existing_paths and not replace:
                raise SwitchroomError(
                    f"{data_dir} is not empty. Use --replace to move its content into a separate folder."
                )
            partial_folder = data_dir / PARTIAL_FOLDER
            # Left by a killed restore: the lock guarantees that no other restore runs.
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
            if kept_name:
                # A start of this version writes it again.
                remove_way_back(data_dir / kept_name)
            # Databases last: if the process is killed here, missing databases show that the restore is
            # incomplete, because they are recorded as created.
            database_files.record_creation(data_dir)
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
        and path.name != PARTIAL_FOLDER
        and not path.name.startswith(ASIDE_PREFIX)
    )


def _can_keep_inbox(source: Path, data_dir: Path) -> bool:
    """Return whether inbox.db has the migration steps of its copy."""
    steps = []
    for path in (source / INBOX, data_dir / INBOX):
        if not path.is_file() or not path.stat().st_size:
            return False
        with open_readonly(path) as connection:
            steps.append(read_recorded_steps(connection, INBOX))
    return steps[0] == steps[1]


def _is_replaced(name: str, kept_name: str | None) -> bool:
    """Return whether a restore of databases replaces a file of data_dir.

    These are the databases with -wal and -shm, and the version record.
    """
    database = name.removesuffix("-wal").removesuffix("-shm")
    return name == version_record.RECORD_FILE or (database in DATABASES and database != kept_name)


def _copy_into(
    source: Path,
    partial_folder: Path,
    backup_manifest: manifest.Manifest,
    skip_damaged: bool,
    progress: Progress,
) -> RestoreResult:
    """Copy every file of the manifest into `partial_folder` and check it."""
    result = RestoreResult(
        backup_manifest.made_at, backup_manifest.version, has_archive=backup_manifest.has_archive
    )
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
    text_back.pause_restored(partial_folder / "house.db")
    restored_names = {entry.path for entry in backup_manifest.files}
    for name in (name for name in DATABASES if name in restored_names):
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
    """Copy one file, or hard-link it.

    `link`: create a hard link if the filesystem supports it. Returns a description of the damage, None for an
    intact file.
    """
    if source.is_symlink() or not source.is_file():
        return f"{entry.path}: missing from the backup"
    try:
        is_linked = link and manifest.create_hard_link(source, target)
        size, sha256 = atomic_files.hash_file(target) if is_linked else manifest.copy_file(source, target)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{entry.path}: cannot be read from the disk"
    if size != entry.size:
        return f"{entry.path}: has {size:,} bytes instead of {entry.size:,}"
    if sha256 != entry.sha256:
        return f"{entry.path}: content changed since the backup (sha256 differs)"
    return None


def _move_aside(data_dir: Path, existing_paths: list[Path]) -> Path:
    aside_folder = data_dir / f"{ASIDE_PREFIX}{clock.now():%Y%m%d-%H%M%S}"
    aside_folder.mkdir(mode=0o700)
    # Databases first, each with its -wal: a database without its -wal, or with another one, is inconsistent.
    for path in sorted(existing_paths, key=lambda path: (path.suffix != ".db", path.name)):
        path.rename(aside_folder / path.name)
    atomic_files.fsync_path(aside_folder)
    return aside_folder
