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

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
DATABASES = ("house.db", "mirror.db", "inbox.db")
"""In the order in which they are copied; see backup.py for why."""

CHUNK_BYTES = 1024 * 1024
_LINK_UNSUPPORTED_ERRORS = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES})


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
            "format": FORMAT_VERSION,
            "made_at": self.made_at,
            "version": self.version,
            "scheduled": self.scheduled,
            "files": [asdict(entry) for entry in self.files],
        }
        with open(folder / MANIFEST_FILE, "x", encoding="utf-8") as file:
            json.dump(body, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())


def read(folder: Path) -> Manifest:
    """The manifest of the backup in `folder`. Raises SwitchroomError where there is none that can be used."""
    path = folder / MANIFEST_FILE
    try:
        body = json.loads(path.read_text("utf-8"))
        if body["format"] != FORMAT_VERSION:
            raise SwitchroomError(f"{path}: has format {body['format']!r}; a newer Switchroom made it")
        entries = tuple(
            Entry(_parse_safe_path(entry["path"]), int(entry["size"]), str(entry["sha256"]))
            for entry in body["files"]
        )
        # Those of the first versions don't say: all of them were asked for.
        return Manifest(
            str(body["made_at"]), str(body["version"]), entries, body.get("scheduled", False) is True
        )
    except FileNotFoundError:
        raise SwitchroomError(_describe_missing_manifest(folder)) from None
    except OSError as error:
        raise SwitchroomError(f"{path}: can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SwitchroomError(f"{path}: is damaged ({error}); this backup can't be trusted") from None


def _describe_missing_manifest(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder}: there is no such folder"
    if folder.name.endswith(".part"):
        return f"{folder}: is a backup that was never finished; take another one"
    backup_names = sorted(found.parent.name for found in folder.glob(f"switchroom-*/{MANIFEST_FILE}"))
    if backup_names:
        return (
            f"{folder}: is a folder of backups; name one of them, the latest is {folder / backup_names[-1]}"
        )
    return f"{folder}: is no backup (it has no {MANIFEST_FILE})"


def _parse_safe_path(text: object) -> str:
    """A path that stays below its folder. A manifest may come from anywhere (promise S13)."""
    path = PurePosixPath(str(text))
    if not isinstance(text, str) or path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"path {text!r}")
    return str(path)


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy into the new file `target` (mode 0600, durable); size and sha256 of what was copied."""
    hasher, size = hashlib.sha256(), 0
    with open(source, "rb") as origin, os.fdopen(create_private_file(target), "wb") as copy:
        while chunk := origin.read(CHUNK_BYTES):
            copy.write(chunk)
            hasher.update(chunk)
            size += len(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return size, hasher.hexdigest()


def create_hard_link(source: Path, target: Path) -> bool:
    """A second name for the same bytes; False where the filesystem can't. For files of the archive only: they
    never change in place, another version comes by rename."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _LINK_UNSUPPORTED_ERRORS:
            return False
        raise
    return True


def create_private_file(path: Path) -> int:
    """A descriptor of the new file `path`, for its owner only."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


@contextmanager
def explain_os_errors(folder: Path) -> Iterator[None]:
    """Turn OSError into one line about `folder` that says what to do."""
    try:
        yield
    except OSError as error:
        name = error.filename or folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(f"{folder}: the disk is full; make room there or choose another one") from error
        raise StorageError(f"{name}: {error.strerror or error}") from error
