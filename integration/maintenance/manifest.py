"""What a backup holds: `manifest.json` names every file with size and sha256. Written last, read first."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from integration.core.errors import StorageError, StorageFull, SwitchroomError

FILE = "manifest.json"
FORMAT = 1
DATABASES = ("house.db", "mirror.db", "inbox.db")
"""In the order in which they are copied; see backup.py for why."""

CHUNK = 1024 * 1024
_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES})


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: `path` relative and with slashes, `size` in bytes, `sha256` as hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`made_at` is UTC text, when the backup began; `version` the product's; `scheduled`: nobody asked for
    it, and the schedule may remove it again."""

    made_at: str
    version: str
    files: tuple[Entry, ...]
    scheduled: bool = False

    def write(self, folder: Path) -> None:
        """Write it into `folder`, durable."""
        body = {
            "format": FORMAT,
            "made_at": self.made_at,
            "version": self.version,
            "scheduled": self.scheduled,
            "files": [asdict(entry) for entry in self.files],
        }
        with open(folder / FILE, "x", encoding="utf-8") as file:
            json.dump(body, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """The manifest of the backup in `folder`. Raises SwitchroomError where there is none that can be used."""
    path = folder / FILE
    try:
        body = json.loads(path.read_text("utf-8"))
        if body["format"] != FORMAT:
            raise SwitchroomError(f"{path}: has format {body['format']!r}; a newer Switchroom made it")
        entries = tuple(
            Entry(_safe(entry["path"]), int(entry["size"]), str(entry["sha256"])) for entry in body["files"]
        )
        # Those of the first versions don't say: all of them were asked for.
        return Manifest(
            str(body["made_at"]), str(body["version"]), entries, body.get("scheduled", False) is True
        )
    except FileNotFoundError:
        raise SwitchroomError(_no_backup(folder)) from None
    except OSError as error:
        raise SwitchroomError(f"{path}: can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SwitchroomError(f"{path}: is damaged ({error}); this backup can't be trusted") from None


def _no_backup(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder}: there is no such folder"
    if folder.name.endswith(".part"):
        return f"{folder}: is a backup that was never finished; take another one"
    inside = sorted(found.parent.name for found in folder.glob(f"switchroom-*/{FILE}"))
    if inside:
        return f"{folder}: is a folder of backups; name one of them, the latest is {folder / inside[-1]}"
    return f"{folder}: is no backup (it has no {FILE})"


def _safe(text: object) -> str:
    """A path that stays below its folder. A manifest may come from anywhere (promise S13)."""
    path = PurePosixPath(str(text))
    if not isinstance(text, str) or path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"path {text!r}")
    return str(path)


def digest(path: Path) -> tuple[int, str]:
    """Size and sha256 of a file's bytes. Raises OSError."""
    with open(path, "rb") as file:
        sha = hashlib.file_digest(file, "sha256")
        return file.tell(), sha.hexdigest()


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy into the new file `target` (mode 0600, durable); size and sha256 of what was copied."""
    sha, size = hashlib.sha256(), 0
    with open(source, "rb") as origin, os.fdopen(create(target), "wb") as copied:
        while chunk := origin.read(CHUNK):
            copied.write(chunk)
            sha.update(chunk)
            size += len(chunk)
        copied.flush()
        os.fsync(copied.fileno())
    return size, sha.hexdigest()


def link(source: Path, target: Path) -> bool:
    """A second name for the same bytes; False where the filesystem can't. For files of the archive only: they
    never change in place, another version comes by rename."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def create(path: Path) -> int:
    """A descriptor of the new file `path`, for its owner only."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


@contextmanager
def telling(folder: Path) -> Iterator[None]:
    """Turn OSError into one line about `folder` that says what to do."""
    try:
        yield
    except OSError as error:
        name = error.filename or folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"{folder}: the disk is full; make room there or choose another one") from error
        raise StorageError(f"{name}: {error.strerror or error}") from error
