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

from integration.core import atomic_files as durable
from integration.core import clock
from integration.core import process_lock as lock
from integration.core.errors import SwitchroomError
from integration.maintenance import manifest
from integration.maintenance.manifest import DATABASES, Entry
from integration.mirror.page_queries import archive_queries as archive
from integration.server.control_channel import SOCKET_FILE
from integration.sqlite import database_files

STAYS = frozenset({lock.LOCK_FILE, SOCKET_FILE, "backups"})
"""What in data_dir is neither data to be replaced nor a reason to refuse."""

ASIDE = "before-restore-"
_PART = "restore.part"

Progress = Callable[[str, int, int], None]


class Damaged(SwitchroomError):
    """The backup is not what its manifest says. `findings` has a line for each file at fault."""

    def __init__(self, source: Path, findings: Iterable[str]) -> None:
        self.findings = tuple(findings)
        super().__init__(
            f"{source}: {len(self.findings)} of its files are damaged; nothing was changed."
            " Take another backup, or leave out damaged recordings with --skip-damaged"
        )


@dataclass(slots=True)
class Restored:
    """`made_at`: when the backup was taken (UTC text). `aside`: where the old contents are, None if there
    were none. `left_out`: a line for each damaged file of the archive that was not restored."""

    made_at: str
    files: int = 0
    bytes: int = 0
    aside: Path | None = None
    left_out: list[str] = field(default_factory=list)


def restore(
    source: Path,
    data_dir: Path,
    *,
    replace: bool = False,
    skip_damaged: bool = False,
    progress: Progress = lambda _what, _done, _total: None,
) -> Restored:
    """Restore the backup `source` into `data_dir`.

    Raises lock.Held while another process works there, SwitchroomError for a data_dir with contents
    (without `replace`) and for what is no backup, Damaged, StorageError.
    """
    held_by = manifest.read(source)
    missing = [name for name in DATABASES if name not in {entry.path for entry in held_by.files}]
    if missing:
        raise SwitchroomError(f"{source}: lacks {', '.join(missing)}; this backup can't be restored")
    with manifest.telling(data_dir):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock.take(data_dir, "restore"):
            old = _contents(data_dir)
            if old and not replace:
                raise SwitchroomError(
                    f"{data_dir}: is not empty; --replace moves what is there into a folder beside it"
                )
            part = data_dir / _PART
            # A restore that was killed left it; the lock says that none is under way.
            if part.exists():
                shutil.rmtree(part)
            part.mkdir(mode=0o700)
            try:
                restored = _fill(source, part, held_by, skip_damaged, progress)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
            if old:
                restored.aside = _move_aside(data_dir, old)
            # Databases last: while they are not all there, `verify` and people see that it was cut short.
            for path in sorted(part.iterdir(), key=lambda path: path.name in DATABASES):
                path.rename(data_dir / path.name)
            part.rmdir()
            durable.sync(data_dir)
    return restored


def _contents(data_dir: Path) -> list[Path]:
    return sorted(
        path
        for path in data_dir.iterdir()
        if path.name not in STAYS and path.name != _PART and not path.name.startswith(ASIDE)
    )


def _fill(
    source: Path, part: Path, held_by: manifest.Manifest, skip_damaged: bool, progress: Progress
) -> Restored:
    """Copy every file of the manifest into `part`, checking each."""
    restored = Restored(held_by.made_at)
    findings: list[str] = []
    for number, entry in enumerate(held_by.files):
        progress("files", number, len(held_by.files))
        target = part / entry.path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        in_archive = "/" in entry.path
        wrong = _take(source / entry.path, target, entry, link=in_archive)
        if wrong is None:
            restored.files += 1
            restored.bytes += entry.size
        elif in_archive and skip_damaged:
            target.unlink(missing_ok=True)
            restored.left_out.append(wrong)
        else:
            findings.append(wrong)
    progress("files", len(held_by.files), len(held_by.files))
    if findings:
        raise Damaged(source, findings)
    archive.renew_epoch(part / "mirror.db")
    for name in DATABASES:
        progress(f"checking {name}", 0, 1)
        findings += [f"{name}: {fault}" for fault in database_files.faults(part / name)]
        durable.sync(part / name)
    if findings:
        raise Damaged(source, findings)
    for folder, _, _ in os.walk(part):
        durable.sync(Path(folder))
    return restored


def _take(source: Path, target: Path, entry: Entry, *, link: bool) -> str | None:
    """Bring one file over, as a second name for the same bytes where that is allowed and the filesystem can.
    Returns what is wrong with it."""
    if source.is_symlink() or not source.is_file():
        return f"{entry.path}: is missing from the backup"
    try:
        linked = link and manifest.link(source, target)
        size, sha256 = manifest.digest(target) if linked else manifest.copy_file(source, target)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{entry.path}: the disk can't read it"
    if size != entry.size:
        return f"{entry.path}: has {size:,} bytes instead of {entry.size:,}"
    if sha256 != entry.sha256:
        return f"{entry.path}: has other content than when it was backed up (sha256 differs)"
    return None


def _move_aside(data_dir: Path, old: list[Path]) -> Path:
    aside = data_dir / f"{ASIDE}{clock.now():%Y%m%d-%H%M%S}"
    aside.mkdir(mode=0o700)
    # Databases first and each with its -wal: a database without its own, or with another's, is not itself.
    for path in sorted(old, key=lambda path: (path.suffix != ".db", path.name)):
        path.rename(aside / path.name)
    durable.sync(aside)
    return aside
