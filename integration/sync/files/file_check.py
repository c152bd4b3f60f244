"""Check an archived file against its stored size and sha256."""

from __future__ import annotations

from pathlib import Path

from integration.core import archive_paths, atomic_files
from integration.mirror.page_queries.archive_queries import ArchivedFile


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
