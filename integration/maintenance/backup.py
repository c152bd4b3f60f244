"""`backup`: a consistent copy of everything in data_dir that can't be made again, beside a running `serve`.

The order is part of the promise. Each database follows another by numbers of that one: house.db keeps how
far it followed mirror.db's calls, mirror.db keeps in `_applied` which webhooks of inbox.db it applied, and
`media` there names files of the archive. What follows is copied before what it follows:

    house.db → mirror.db → inbox.db, and after mirror.db the files

So the copies disagree only in the way that heals by itself: inbox.db may hold webhooks that mirror.db has
not applied, which are claimed at the next start, and mirror.db calls that house.db has not seen. The other
way round, a webhook stored after the restore would be given a seq that `_applied` already holds, and would
never be applied. inbox.db coming last also means that the copy holds what was acknowledged while it was
being made, up to that moment.
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
from integration.maintenance import manifest
from integration.maintenance.manifest import DATABASES, Entry, Manifest
from integration.mirror.page_queries import archive_queries
from integration.settings.data_dir_secrets import ACCOUNT_FILE, ERASURE_FILE, SECRET_FILE
from integration.settings.model import Settings
from integration.sqlite import database_files
from integration.sqlite.readers import open_readonly

ARCHIVE_FOLDERS = ("recordings", "voicemail")
"""Folders that belong to a backup even when mirror.db names no file in them."""

SMALL_FILES = (SECRET_FILE, ACCOUNT_FILE, ERASURE_FILE)

OWNER_FILE = "owner"
"""File in a folder that is growing, or being removed: whose it is."""

BACKUP_NAME_PATTERN = "switchroom-????????-??????"
"""Pattern of a finished backup's name."""

Progress = Callable[[str, int, int], None]
"""Called with what is being copied, what is done of it, and the total."""


class BackupRunning(SwitchroomError):
    """Another backup of the same data_dir is being made."""


@dataclass(slots=True)
class FinishedBackup:
    """A finished backup. `notes` are lines for people about files that are not as they should be."""

    path: Path
    files: int = 0
    bytes: int = 0
    linked: int = 0
    notes: list[str] = field(default_factory=list)


def get_destination(settings: Settings) -> Path:
    """Where backups go that are made by the schedule or from the dashboard."""
    return settings.backup.dest or settings.storage.data_dir / "backups"


def create(
    data_dir: Path,
    dest: Path,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    scheduled: bool = False,
) -> FinishedBackup:
    """Write `dest/switchroom-YYYYMMDD-HHMMSS/` (UTC), which appears under that name when it is complete and
    its databases were found sound.

    Raises StorageError (StorageFull for no room, StorageBroken for a copy that is damaged), BackupRunning,
    SwitchroomError where there is nothing to back up.
    """
    for name in DATABASES:
        if not (data_dir / name).is_file():
            raise SwitchroomError(f"{data_dir}: has no {name}; start `switchroom serve` once, then back up")
    started_at = clock.now()
    final_folder = dest / f"switchroom-{started_at:%Y%m%d-%H%M%S}"
    owner = format_owner(data_dir)
    with manifest.explain_os_errors(dest), _lock_backup(data_dir):
        dest.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_unfinished(dest, owner)
        if final_folder.exists():
            raise SwitchroomError(f"{final_folder}: is there already; try again in a second")
        _check_space(data_dir, dest)
        partial_folder = final_folder.with_name(final_folder.name + ".part")
        with _create_partial_folder(partial_folder, owner):
            backup = FinishedBackup(final_folder)
            entries = list(_copy_all(data_dir, partial_folder, backup, progress))
            (partial_folder / OWNER_FILE).unlink()
            Manifest(clock.utc_text(started_at), integration.__version__, tuple(entries), scheduled).write(
                partial_folder
            )
            _verify_copy(partial_folder, progress)
            for folder, _, _ in os.walk(partial_folder):
                atomic_files.fsync_path(Path(folder))
            partial_folder.rename(final_folder)
        atomic_files.fsync_path(dest)
    backup.files, backup.bytes = len(entries), sum(entry.size for entry in entries)
    return backup


def format_owner(data_dir: Path) -> str:
    """What a growing folder says of whose it is."""
    return f"{socket.gethostname()}:{data_dir.resolve()}"


def _verify_copy(partial_folder: Path, progress: Progress) -> None:
    """Read back what was written. Archive files only by size: their sha256 was taken while they were copied,
    and reading terabytes twice a day would wear out what it is to protect.

    Raises StorageBroken, SwitchroomError.
    """
    for entry in manifest.read(partial_folder).files:
        size = (partial_folder / entry.path).stat().st_size
        faults = [f"has {size:,} bytes instead of {entry.size:,}"] if size != entry.size else []
        if entry.path in DATABASES:
            progress(f"checking {entry.path}", 0, 1)
            faults += database_files.find_faults(partial_folder / entry.path)
        if faults:
            raise StorageBroken(f"the copy of {entry.path} {'; '.join(faults)}; run `switchroom verify`")


def _copy_all(
    data_dir: Path, partial_folder: Path, backup: FinishedBackup, progress: Progress
) -> Iterator[Entry]:
    for name in DATABASES:
        yield _copy_database(data_dir / name, partial_folder / name, progress)
        if name == "mirror.db":
            # Read from the copy: what it names as present was complete when it was made.
            expected_files = _read_expected_files(partial_folder / name)
    for name in SMALL_FILES:
        # webhook-secret is only there where no secret is configured.
        with contextlib.suppress(FileNotFoundError):
            size, sha256 = manifest.copy_file(data_dir / name, partial_folder / name)
            yield Entry(name, size, sha256)
    yield from _copy_archive(data_dir, partial_folder, expected_files, backup, progress)


def _copy_database(source: Path, target: Path, progress: Progress) -> Entry:
    # Made here first: SQLite gives the files beside it the mode of the database.
    os.close(manifest.create_private_file(target))
    database_files.copy_database(source, target, lambda done, total: progress(source.name, done, total))
    atomic_files.fsync_path(target)
    size, sha256 = atomic_files.hash_file(target)
    return Entry(target.name, size, sha256)


def _read_expected_files(mirror_path: Path) -> dict[str, tuple[int | None, str | None]]:
    """Path below data_dir → size and sha256 as they were when the file was downloaded and verified."""
    with open_readonly(mirror_path) as connection:
        return {file.path: (file.size, file.sha256) for file in archive_queries.iterate_files(connection)}


def _copy_archive(
    data_dir: Path,
    partial_folder: Path,
    expected_files: Mapping[str, tuple[int | None, str | None]],
    backup: FinishedBackup,
    progress: Progress,
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
            is_linked = manifest.create_hard_link(source, target)
            entry = (
                _make_linked_entry(path, target, expected_files.get(path))
                if is_linked
                else _copy_entry(path, source, target)
            )
        except FileNotFoundError:
            # Removed since the folder was listed; a row that still names it is noted below.
            continue
        backup.linked += is_linked
        copied_paths.add(path)
        size, sha256 = expected_files.get(path, (None, None))
        if sha256 is not None and (entry.size, entry.sha256) != (size, sha256):
            backup.notes.append(f"{path}: is not what was downloaded; `switchroom verify` tells more")
        yield entry
    progress("files", len(source_files), len(source_files))
    backup.notes += [
        f"{path}: is missing from the archive" for path in expected_files if path not in copied_paths
    ]


def _make_linked_entry(path: str, target: Path, expected: tuple[int | None, str | None] | None) -> Entry:
    """What a linked file should be. Its bytes are read only where nobody ever did: reading the whole archive
    at each backup would cost hours, and `restore` and `verify` compare what they find with the same sum."""
    size = target.stat().st_size
    if expected is not None and expected[1] is not None and expected[0] == size:
        return Entry(path, size, expected[1])
    return Entry(path, *atomic_files.hash_file(target))


def _copy_entry(path: str, source: Path, target: Path) -> Entry:
    return Entry(path, *manifest.copy_file(source, target))


def _iterate_files(folder: Path) -> Iterator[Path]:
    """Complete files below `folder`: regular ones that no download is still writing. Links are left out."""
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
    """Say so at once where not even the databases fit. The archive may be linked and need no room."""
    needed_bytes = sum(
        (data_dir / (name + suffix)).stat().st_size
        for name in DATABASES
        for suffix in ("", "-wal")
        if (data_dir / (name + suffix)).exists()
    )
    free_bytes = shutil.disk_usage(dest).free
    if free_bytes < needed_bytes:
        raise StorageFull(
            f"{dest}: has {free_bytes / 1e6:,.0f} MB free, the databases need {needed_bytes / 1e6:,.0f} MB;"
            " make room there or choose another folder"
        )


@contextmanager
def _lock_backup(data_dir: Path) -> Iterator[None]:
    """One backup of a data_dir at a time. It is locked itself: the destination may be a network disk, which
    often can't, and a lock file made by root would keep out the user that `serve` runs as."""
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupRunning(f"{data_dir}: another backup of it is under way") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _create_partial_folder(partial_folder: Path, owner: str) -> Iterator[None]:
    """The new folder `partial_folder`, which says whose it is while it grows and is removed if the block
    fails."""
    partial_folder.mkdir(mode=0o700)
    try:
        (partial_folder / OWNER_FILE).write_text(owner, "utf-8")
        yield
    except BaseException:
        shutil.rmtree(partial_folder, ignore_errors=True)
        raise


def _remove_unfinished(dest: Path, owner: str) -> None:
    """Remove what backups of ours that were killed left behind. Others may back up to the same place."""
    for partial_folder in dest.glob(f"{BACKUP_NAME_PATTERN}.part"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not partial_folder.is_symlink() and (partial_folder / OWNER_FILE).read_text("utf-8") == owner:
                shutil.rmtree(partial_folder)
