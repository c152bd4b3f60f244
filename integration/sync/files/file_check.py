"""Check an archived file against its stored size and sha256."""

from __future__ import annotations

from pathlib import Path

from integration.core import atomic_files
from integration.mirror.page_queries.archive_queries import ArchivedFile


def find_fault(data_dir: Path, file: ArchivedFile, *, quick: bool = False) -> str | None:
    """Return the fault of `file`, or None.

    The fault is a predicate for the path, such as "is missing". With `quick`, compare only the size;
    otherwise read the complete file.
    """
    path = data_dir / file.path
    # The folder of the archive may be a symbolic link to a larger disk; a path inside it may not be one.
    archive_folder = data_dir / Path(file.path).parts[0]
    if path.is_symlink() or not path.resolve().is_relative_to(archive_folder.resolve()):
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
