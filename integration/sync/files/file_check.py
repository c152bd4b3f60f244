"""One file of the archive against what was noted when it was downloaded."""

from __future__ import annotations

from pathlib import Path

from integration.core import atomic_files
from integration.mirror.page_queries.archive_queries import ArchivedFile


def find_fault(data_dir: Path, file: ArchivedFile, *, quick: bool = False) -> str | None:
    """What is wrong with the file, after its path; None where nothing is. `quick`: only its size is looked
    at. Reads all of it otherwise."""
    path = data_dir / file.path
    # The folder itself may be a link to a larger disk; nothing in it may be one.
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
        return f"can't be read: {error.strerror}"
    return None
