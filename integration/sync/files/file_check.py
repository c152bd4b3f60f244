"""Check a file of the archive: size, sha256 and type."""

from __future__ import annotations

from pathlib import Path

from integration.core import archive_paths, atomic_files
from integration.mirror.sync_state.scrub_log import ArchivedFile
from integration.platform_api.downloads import HEAD_BYTES, Expected


def find_fault(data_dir: Path, file: ArchivedFile, *, quick: bool = False) -> str | None:
    """Return the fault of `file`, or None.

    The fault is a predicate for the path, such as "is missing". With `quick`, compare only the size;
    otherwise read the complete file.
    """
    path = data_dir / file.path
    if archive_paths.leads_out(data_dir, file.path):
        return "leads out of the archive"
    try:
        size = path.stat().st_size
        if file.size is not None and size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        if quick or file.sha256 is None:
            return None
        if atomic_files.hash_file(path)[1] != file.sha256:
            return "has other content than what was downloaded (sha256 differs)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def recognize_file(data_dir: Path, file: ArchivedFile, expected: Expected) -> tuple[int, str] | None:
    """Return size and sha256 of an existing file without stored ones.

    A new mirror.db has no sizes and digests of the archive. Only complete files have their final names. None
    without the file, and if its size, its start or its end are not as `expected`.
    """
    path = data_dir / file.path
    if not path.exists() or find_fault(data_dir, file) is not None:
        return None
    try:
        with open(path, "rb") as content:
            head = content.read(HEAD_BYTES)
        if not head or expected.check_head(head) is not None or expected.check_end(path) is not None:
            return None
        return atomic_files.hash_file(path)
    except OSError:
        return None  # The download replaces a file that cannot be read.
