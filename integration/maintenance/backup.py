"""`backup`: copy all irreplaceable data of data_dir while `serve` runs.

The databases are copied in a fixed order, because each stores its position in another one: house.db stores up
to which change it has processed the calls of mirror.db, mirror.db stores in `_applied` which webhooks of
inbox.db it applied, and its table `media` names files of the archive. A database is copied before the one
that its position refers to:

    house.db → mirror.db → inbox.db, and after mirror.db the files

The copies can then differ only in ways that are repaired automatically: inbox.db may have webhooks that
mirror.db has not applied, which are applied at the next start, and mirror.db may have calls that house.db has
not processed. In the opposite order a webhook stored after the restore could get a seq that `_applied`
already contains, and would never be applied. Because inbox.db is copied last, the backup also contains the
webhooks acknowledged while it was made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import integration
from integration.core import atomic_files, clock
from integration.core.errors import StorageBroken, StorageFull, SwitchroomError
from integration.maintenance import manifest, version_record
from integration.maintenance.manifest import DATABASES, Entry, Manifest
from integration.mirror.sync_state import scrub_log
from integration.settings.data_dir_secrets import ACCOUNT_FILE, ERASURE_FILE, SECRET_FILE
from integration.settings.model import Settings
from integration.sqlite import database_files
from integration.sqlite.readers import open_readonly

ARCHIVE_FOLDERS = ("recordings", "voicemail")
"""Folders that are always copied, even if mirror.db names no file in them."""

SMALL_FILES = (SECRET_FILE, ACCOUNT_FILE, ERASURE_FILE, version_record.RECORD_FILE)
"""Files that are copied if they exist."""

OWNER_FILE = "owner"
"""File in an unfinished backup or one being removed; names the host and data_dir that own it."""

BACKUP_NAME_PATTERN = "switchroom-????????-??????"
"""Glob pattern of the folder names of finished backups."""

Progress = Callable[[str, int, int], None]
"""Callback with the name of the current step, the completed amount and the total."""


class BackupRunning(SwitchroomError):
    """Another backup of the same data_dir is running."""


@dataclass(slots=True)
class FinishedBackup:
    """A finished backup.

    `notes` has a line for each missing or changed file of the archive.
    """

    path: Path
    files: int = 0
    bytes: int = 0
    linked: int = 0
    notes: list[str] = field(default_factory=list)


def get_destination(settings: Settings) -> Path:
    """Return the folder for scheduled backups and backups started on the dashboard."""
    return settings.backup.dest or settings.storage.data_dir / "backups"


def create(
    data_dir: Path,
    dest: Path,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    scheduled: bool = False,
    copies_files: bool = False,
) -> FinishedBackup:
    """Write the backup `dest/switchroom-YYYYMMDD-HHMMSS/` (UTC).

    The folder has this name only after it is complete and its databases were checked. `copies_files`: copy
    the archive, even where hard links are possible.

    Raises StorageFull without enough disk space, StorageBroken for a damaged copy, other StorageErrors,
    BackupRunning, and SwitchroomError for a data_dir without databases.
    """
    for name in DATABASES:
        if not (data_dir / name).is_file():
            raise SwitchroomError(f"{data_dir} has no {name}. Run `switchroom serve` once before a backup.")
        if database_files.is_empty(data_dir / name):
            raise SwitchroomError(
                f"{data_dir / name} is empty. Restore an earlier backup. No backup was made."
            )
    started_at = clock.now()
    final_folder = dest / f"switchroom-{started_at:%Y%m%d-%H%M%S}"
    with _write_folder(data_dir, final_folder) as partial_folder:
        if final_folder.exists():
            raise SwitchroomError(f"The folder {final_folder} already exists. Try again in 1 second.")
        backup = FinishedBackup(final_folder)
        entries = list(_copy_all(data_dir, partial_folder, backup, progress, copies_files))
        Manifest(clock.utc_text(started_at), integration.__version__, tuple(entries), scheduled).write(
            partial_folder
        )
        _verify_copy(partial_folder, progress)
    backup.files, backup.bytes = len(entries), sum(entry.size for entry in entries)
    return backup


def copy_databases(data_dir: Path, final_folder: Path, version: str) -> None:
    """Copy the three databases to `final_folder` before an upgrade.

    A folder with this name is replaced. `version`: of the Switchroom that wrote the data. Raises StorageFull,
    other StorageErrors and BackupRunning.
    """
    with _write_folder(data_dir, final_folder) as partial_folder:
        if final_folder.exists():
            shutil.rmtree(final_folder)
        entries = [
            _copy_database(data_dir / name, partial_folder / name, lambda _what, _done, _total: None)
            for name in DATABASES
        ]
        record = data_dir / version_record.RECORD_FILE
        if record.exists():
            entries.append(Entry(record.name, *manifest.copy_file(record, partial_folder / record.name)))
        Manifest(clock.utc_text(), version, tuple(entries), has_archive=False).write(partial_folder)


@contextmanager
def _write_folder(data_dir: Path, final_folder: Path) -> Iterator[Path]:
    """Create a folder for the block, and give it its final name afterwards.

    Removes the folder if the block raises, and unfinished ones of earlier processes. Raises StorageError and
    BackupRunning.
    """
    dest, owner = final_folder.parent, format_owner(data_dir)
    partial_folder = final_folder.with_name(final_folder.name + ".part")
    with manifest.explain_os_errors(dest), _lock_backup(data_dir):
        dest.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_unfinished(dest, owner)
        _check_space(data_dir, dest)
        partial_folder.mkdir(mode=0o700)
        try:
            (partial_folder / OWNER_FILE).write_text(owner, "utf-8")
            yield partial_folder
            (partial_folder / OWNER_FILE).unlink()
            for folder, _, _ in os.walk(partial_folder):
                atomic_files.fsync_path(Path(folder))
            partial_folder.rename(final_folder)
        except BaseException:
            shutil.rmtree(partial_folder, ignore_errors=True)
            raise
        atomic_files.fsync_path(dest)


def format_owner(data_dir: Path) -> str:
    """Return the content of OWNER_FILE for backups of `data_dir`."""
    return f"{socket.gethostname()}:{data_dir.resolve()}"


def _verify_copy(partial_folder: Path, progress: Progress) -> None:
    """Check the written backup: databases by their content, files by size.

    The sha256 of files was computed while they were copied. Reading terabytes twice a day would wear out the
    disk. Raises StorageBroken and SwitchroomError.
    """
    for entry in manifest.read(partial_folder).files:
        size = (partial_folder / entry.path).stat().st_size
        faults = [f"has {size:,} bytes instead of {entry.size:,}"] if size != entry.size else []
        if entry.path in DATABASES:
            progress(f"checking {entry.path}", 0, 1)
            faults += database_files.find_faults(partial_folder / entry.path)
        if faults:
            raise StorageBroken(
                f"The backup failed. Copy of {entry.path}: {'; '.join(faults)}. Run `switchroom verify` to"
                " check the original."
            )


def _copy_all(
    data_dir: Path, partial_folder: Path, backup: FinishedBackup, progress: Progress, copies_files: bool
) -> Iterator[Entry]:
    for name in DATABASES:
        yield _copy_database(data_dir / name, partial_folder / name, progress)
        if name == "mirror.db":
            # Read from the copy: the files that it lists as present were complete when it was made.
            expected_files = _read_expected_files(partial_folder / name)
    for name in SMALL_FILES:
        # webhook-secret exists only if no secret is configured.
        with contextlib.suppress(FileNotFoundError):
            size, sha256 = manifest.copy_file(data_dir / name, partial_folder / name)
            yield Entry(name, size, sha256)
    yield from _copy_archive(data_dir, partial_folder, expected_files, backup, progress, copies_files)


def _copy_database(source: Path, target: Path, progress: Progress) -> Entry:
    # Create the file first with mode 0600: SQLite creates -wal and -shm with the mode of the database.
    os.close(manifest.create_private_file(target))
    database_files.copy_database(source, target, lambda done, total: progress(source.name, done, total))
    atomic_files.fsync_path(target)
    size, sha256 = atomic_files.hash_file(target)
    return Entry(target.name, size, sha256)


def _read_expected_files(mirror_path: Path) -> dict[str, tuple[int | None, str | None]]:
    """Return size and sha256 of downloaded files by path below data_dir.

    Both are as they were at the time of the download.
    """
    with open_readonly(mirror_path) as connection:
        return {file.path: (file.size, file.sha256) for file in scrub_log.iterate_files(connection)}


def _copy_archive(
    data_dir: Path,
    partial_folder: Path,
    expected_files: Mapping[str, tuple[int | None, str | None]],
    backup: FinishedBackup,
    progress: Progress,
    copies_files: bool,
) -> Iterator[Entry]:
    folders = sorted({*ARCHIVE_FOLDERS, *(path.split("/")[0] for path in expected_files if "/" in path)})
    source_files = [path for folder in folders for path in _iterate_files(data_dir / folder)]
    copied_paths = set()
    for index, source in enumerate(source_files):
        progress("files", index, len(source_files))
        path = source.relative_to(data_dir).as_posix()
        target = partial_folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            is_linked = not copies_files and manifest.create_hard_link(source, target)
            entry = (
                _make_linked_entry(path, target, expected_files.get(path))
                if is_linked
                else Entry(path, *manifest.copy_file(source, target))
            )
        except FileNotFoundError:
            # The file was deleted after the folder was listed. If `media` still lists it, a note is added
            # below.
            continue
        backup.linked += is_linked
        copied_paths.add(path)
        size, sha256 = expected_files.get(path, (None, None))
        if sha256 is not None and (entry.size, entry.sha256) != (size, sha256):
            backup.notes.append(f"{path}: differs from the download; run `switchroom verify` for details")
        yield entry
    progress("files", len(source_files), len(source_files))
    backup.notes += [
        f"{path}: missing from the archive" for path in expected_files if path not in copied_paths
    ]


def _make_linked_entry(path: str, target: Path, expected: tuple[int | None, str | None] | None) -> Entry:
    """Build a linked file's manifest entry with the sha256 of its download.

    The file is read only if no sha256 is stored: reading the entire archive for each backup would take hours,
    and `restore` and `verify` compare the content with the same sha256.
    """
    size = target.stat().st_size
    if expected is not None and expected[1] is not None and expected[0] == size:
        return Entry(path, size, expected[1])
    return Entry(path, *atomic_files.hash_file(target))


def _iterate_files(folder: Path) -> Iterator[Path]:
    """Yield the complete regular files below `folder`.

    Symbolic links and running downloads are excluded.
    """
    try:
        listing = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in listing:
        if entry.is_dir(follow_symlinks=False):
            yield from _iterate_files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".part"):
            yield Path(entry.path)


def _check_space(data_dir: Path, dest: Path) -> None:
    """Raise StorageFull if the databases do not fit.

    The archive may be linked and need no space.
    """
    needed_bytes = sum(
        (data_dir / (name + suffix)).stat().st_size
        for name in DATABASES
        for suffix in ("", "-wal")
        if (data_dir / (name + suffix)).exists()
    )
    free_bytes = shutil.disk_usage(dest).free
    if free_bytes < needed_bytes:
        raise StorageFull(
            f"{dest} has {free_bytes / 1e6:,.0f} MB of free space, but the databases need"
            f" {needed_bytes / 1e6:,.0f} MB. Free disk space or choose another folder."
        )


@contextmanager
def _lock_backup(data_dir: Path) -> Iterator[None]:
    """Lock `data_dir` against concurrent backups. Raises BackupRunning.

    The lock is on the folder data_dir itself: the destination may be a network disk without locks, and a lock
    file created by root would block the user of `serve`.
    """
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupRunning(
                f"Another backup of {data_dir} is running. Try again after it has finished."
            ) from None
        yield
    finally:
        os.close(descriptor)


def _remove_unfinished(dest: Path, owner: str) -> None:
    """Remove unfinished backups of this owner.

    Other installations may use the same folder.
    """
    for partial_folder in dest.glob("*.part"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not partial_folder.is_symlink() and (partial_folder / OWNER_FILE).read_text("utf-8") == owner:
                shutil.rmtree(partial_folder)
