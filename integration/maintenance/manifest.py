"""Manifest of a backup: `manifest.json`.

It has path, size and sha256 of every file and is written last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath

from integration.core.errors import StorageError, StorageFull, SwitchroomError

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
DATABASES_FORMAT_VERSION = 2
"""Format of a copy of the databases alone.

Version 0.1.0 refuses it: its `restore` would move the archive aside.
"""
DATABASES = ("house.db", "mirror.db", "inbox.db")
"""Databases in the order of copying; the docstring of backup.py has the reason."""

CHUNK_BYTES = 1024 * 1024
"""Bytes of one read."""
_LINK_UNSUPPORTED_ERRORS = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES})


@dataclass(frozen=True, slots=True)
class Entry:
    """File of a backup.

    `path`: relative, with slashes. `size`: bytes. `sha256`: hex digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of `manifest.json`.

    `made_at` is the start of the backup (UTC text), `version` the version of Switchroom that wrote the data.
    `scheduled`: the backup was made by the schedule, which may remove it later. `has_archive`: false for the
    copy of the databases that an upgrade makes.
    """

    made_at: str
    version: str
    files: tuple[Entry, ...]
    scheduled: bool = False
    has_archive: bool = True

    def leave_out(self, path: str | None) -> Manifest:
        """Return the manifest without the file `path`."""
        return replace(self, files=tuple(entry for entry in self.files if entry.path != path))

    def write(self, folder: Path) -> None:
        """Write the manifest to `folder` and fsync it."""
        body = {
            "format": FORMAT_VERSION if self.has_archive else DATABASES_FORMAT_VERSION,
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
    """Read the manifest of the backup in `folder`.

    Raises SwitchroomError for a missing or invalid one.
    """
    path = folder / MANIFEST_FILE
    try:
        body = json.loads(path.read_text("utf-8"))
        if body["format"] not in (FORMAT_VERSION, DATABASES_FORMAT_VERSION):
            raise SwitchroomError(
                f"{path} has the format {body['format']!r} of a newer version. Update Switchroom to read it."
            )
        entries = tuple(
            Entry(_parse_safe_path(entry["path"]), int(entry["size"]), str(entry["sha256"]))
            for entry in body["files"]
        )
        # Manifests of the first versions lack `scheduled`; those backups were made by a user.
        return Manifest(
            str(body["made_at"]),
            str(body["version"]),
            entries,
            body.get("scheduled", False) is True,
            body["format"] == FORMAT_VERSION,
        )
    except FileNotFoundError:
        raise SwitchroomError(_describe_missing_manifest(folder)) from None
    except OSError as error:
        raise SwitchroomError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SwitchroomError(f"{path} is damaged ({error}). Use another backup.") from None


def _describe_missing_manifest(folder: Path) -> str:
    if not folder.is_dir():
        return f"The folder {folder} does not exist."
    if folder.name.endswith(".part"):
        return f"{folder} is an unfinished backup. Use another one."
    backup_names = sorted(found.parent.name for found in folder.glob(f"switchroom-*/{MANIFEST_FILE}"))
    if backup_names:
        return (
            f"{folder} is a folder of backups. Choose one of them; the latest is {folder / backup_names[-1]}."
        )
    return f"{folder} is not a backup: it has no {MANIFEST_FILE}."


def _parse_safe_path(text: object) -> str:
    """Return a path below its folder.

    Raises ValueError for others: a manifest is untrusted (promise S13).
    """
    path = PurePosixPath(str(text))
    if not isinstance(text, str) or path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"path {text!r}")
    return str(path)


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy to the new file `target` (mode 0600) and fsync it.

    Returns size in bytes and sha256.
    """
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
    """Create a hard link.

    Returns False if the filesystem does not support it.

    Only for files of the archive: they never change in place; another version replaces them by a rename.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _LINK_UNSUPPORTED_ERRORS:
            return False
        raise
    return True


def create_private_file(path: Path) -> int:
    """Create `path` with mode 0600. Returns its file descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)


@contextmanager
def explain_os_errors(folder: Path) -> Iterator[None]:
    """Convert OSError into StorageFull or StorageError with a message about `folder`."""
    try:
        yield
    except OSError as error:
        name = error.filename or folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull(
                f"The disk of {folder} is full. Free disk space or choose another folder."
            ) from error
        raise StorageError(f"{name}: {error.strerror or error}") from error
