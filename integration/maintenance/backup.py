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
from integration.core import atomic_files as durable
from integration.core import clock
from integration.core.errors import StorageBroken, StorageFull, SwitchroomError
from integration.maintenance import manifest
from integration.maintenance.manifest import DATABASES, Entry, Manifest
from integration.mirror.page_queries import archive_queries as archive
from integration.settings.data_dir_secrets import ACCOUNT_FILE, ERASURE_FILE, SECRET_FILE
from integration.settings.model import Settings
from integration.sqlite import database_files

ARCHIVE_FOLDERS = ("recordings", "voicemail")
"""Folders that belong to a backup even when mirror.db names no file in them."""

SMALL_FILES = (SECRET_FILE, ACCOUNT_FILE, ERASURE_FILE)

OWNER = "owner"
"""File in a folder that is growing, or being removed: whose it is."""

NAMES = "switchroom-????????-??????"
"""Pattern of a finished backup's name."""

Progress = Callable[[str, int, int], None]
"""Called with what is being copied, what is done of it, and the total."""


class UnderWay(SwitchroomError):
    """Another backup of the same data_dir is being made."""


@dataclass(slots=True)
class Made:
    """A finished backup. `notes` are lines for people about files that are not as they should be."""

    path: Path
    files: int = 0
    bytes: int = 0
    linked: int = 0
    notes: list[str] = field(default_factory=list)


def destination(settings: Settings) -> Path:
    """Where backups go that are made by the schedule or from the dashboard."""
    return settings.backup.dest or settings.storage.data_dir / "backups"


def make(
    data_dir: Path,
    dest: Path,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    scheduled: bool = False,
) -> Made:
    """Write `dest/switchroom-YYYYMMDD-HHMMSS/` (UTC), which appears under that name when it is complete and
    its databases were found sound.

    Raises StorageError (StorageFull for no room, StorageBroken for a copy that is damaged), UnderWay,
    SwitchroomError where there is nothing to back up.
    """
    for name in DATABASES:
        if not (data_dir / name).is_file():
            raise SwitchroomError(f"{data_dir}: has no {name}; start `switchroom serve` once, then back up")
    moment = clock.now()
    final = dest / f"switchroom-{moment:%Y%m%d-%H%M%S}"
    owner = owner_of(data_dir)
    with manifest.telling(dest), _only_one(data_dir):
        dest.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear(dest, owner)
        if final.exists():
            raise SwitchroomError(f"{final}: is there already; try again in a second")
        _check_room(data_dir, dest)
        part = final.with_name(final.name + ".part")
        with _begun(part, owner):
            made = Made(final)
            entries = list(_copy_all(data_dir, part, made, progress))
            (part / OWNER).unlink()
            Manifest(clock.stamp(moment), integration.__version__, tuple(entries), scheduled).write(part)
            _verify(part, progress)
            for folder, _, _ in os.walk(part):
                durable.sync(Path(folder))
            part.rename(final)
        durable.sync(dest)
    made.files, made.bytes = len(entries), sum(entry.size for entry in entries)
    return made


def owner_of(data_dir: Path) -> str:
    """What a growing folder says of whose it is."""
    return f"{socket.gethostname()}:{data_dir.resolve()}"


def _verify(part: Path, progress: Progress) -> None:
    """Read back what was written. Archive files only by size: their sha256 was taken while they were copied,
    and reading terabytes twice a day would wear out what it is to protect.

    Raises StorageBroken, SwitchroomError.
    """
    for entry in manifest.read(part).files:
        size = (part / entry.path).stat().st_size
        faults = [f"has {size:,} bytes instead of {entry.size:,}"] if size != entry.size else []
        if entry.path in DATABASES:
            progress(f"checking {entry.path}", 0, 1)
            faults += database_files.faults(part / entry.path)
        if faults:
            raise StorageBroken(f"the copy of {entry.path} {'; '.join(faults)}; run `switchroom verify`")


def _copy_all(data_dir: Path, part: Path, made: Made, progress: Progress) -> Iterator[Entry]:
    for name in DATABASES:
        yield _copy_database(data_dir / name, part / name, progress)
        if name == "mirror.db":
            # Read from the copy: what it names as present was complete when it was made.
            known = _known_files(part / name)
    for name in SMALL_FILES:
        # webhook-secret is only there where no secret is configured.
        with contextlib.suppress(FileNotFoundError):
            size, sha256 = manifest.copy_file(data_dir / name, part / name)
            yield Entry(name, size, sha256)
    yield from _copy_archive(data_dir, part, known, made, progress)


def _copy_database(source: Path, target: Path, progress: Progress) -> Entry:
    # Made here first: SQLite gives the files beside it the mode of the database.
    os.close(manifest.create(target))
    database_files.copy(source, target, lambda done, total: progress(source.name, done, total))
    durable.sync(target)
    size, sha256 = manifest.digest(target)
    return Entry(target.name, size, sha256)


def _known_files(mirror: Path) -> dict[str, tuple[int | None, str | None]]:
    """Path below data_dir → size and sha256 as they were when the file was downloaded and verified."""
    with database_files.look_at(mirror) as connection:
        return {file.path: (file.size, file.sha256) for file in archive.kept(connection)}


def _copy_archive(
    data_dir: Path,
    part: Path,
    known: Mapping[str, tuple[int | None, str | None]],
    made: Made,
    progress: Progress,
) -> Iterator[Entry]:
    folders = sorted({*ARCHIVE_FOLDERS, *(path.split("/")[0] for path in known if "/" in path)})
    found = [path for folder in folders for path in _files(data_dir / folder)]
    copied = set()
    for number, source in enumerate(found):
        progress("files", number, len(found))
        path = source.relative_to(data_dir).as_posix()
        target = part / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            linked = manifest.link(source, target)
            entry = _linked(path, target, known.get(path)) if linked else _copied(path, source, target)
        except FileNotFoundError:
            # Removed since the folder was listed; a row that still names it is noted below.
            continue
        made.linked += linked
        copied.add(path)
        size, sha256 = known.get(path, (None, None))
        if sha256 is not None and (entry.size, entry.sha256) != (size, sha256):
            made.notes.append(f"{path}: is not what was downloaded; `switchroom verify` tells more")
        yield entry
    progress("files", len(found), len(found))
    made.notes += [f"{path}: is missing from the archive" for path in known if path not in copied]


def _linked(path: str, target: Path, known: tuple[int | None, str | None] | None) -> Entry:
    """What a linked file should be. Its bytes are read only where nobody ever did: reading the whole archive
    at each backup would cost hours, and `restore` and `verify` compare what they find with the same sum."""
    size = target.stat().st_size
    if known is not None and known[1] is not None and known[0] == size:
        return Entry(path, size, known[1])
    return Entry(path, *manifest.digest(target))


def _copied(path: str, source: Path, target: Path) -> Entry:
    return Entry(path, *manifest.copy_file(source, target))


def _files(folder: Path) -> Iterator[Path]:
    """Complete files below `folder`: regular ones that no download is still writing. Links are left out."""
    try:
        listing = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in listing:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(".part"):
            yield Path(entry.path)


def _check_room(data_dir: Path, dest: Path) -> None:
    """Say so at once where not even the databases fit. The archive may be linked and need no room."""
    needed = sum(
        (data_dir / (name + tail)).stat().st_size
        for name in DATABASES
        for tail in ("", "-wal")
        if (data_dir / (name + tail)).exists()
    )
    free = shutil.disk_usage(dest).free
    if free < needed:
        raise StorageFull(
            f"{dest}: has {free / 1e6:,.0f} MB free, the databases need {needed / 1e6:,.0f} MB;"
            " make room there or choose another folder"
        )


@contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """One backup of a data_dir at a time. It is locked itself: DEST may be a network disk, which often can't,
    and a lock file made by root would keep out the user that `serve` runs as."""
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnderWay(f"{data_dir}: another backup of it is under way") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _begun(part: Path, owner: str) -> Iterator[None]:
    """The new folder `part`, which says whose it is while it grows and is removed if the block fails."""
    part.mkdir(mode=0o700)
    try:
        (part / OWNER).write_text(owner, "utf-8")
        yield
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _clear(dest: Path, owner: str) -> None:
    """Remove what backups of ours that were killed left behind. Others may back up to the same place."""
    for part in dest.glob(f"{NAMES}.part"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if not part.is_symlink() and (part / OWNER).read_text("utf-8") == owner:
                shutil.rmtree(part)
