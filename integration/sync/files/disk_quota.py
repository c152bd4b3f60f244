"""Room on the disk for what is being fetched."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from integration.core.errors import StorageFull
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state.media_files import Wanted
from integration.sync.context import Parts

LEFT_FREE = 2 * 10**9
"""Bytes that the archive never takes (interface.md §2, recordings.max_gb)."""

GUESS = 10 * 10**6
"""Bytes to expect of a file whose record tells no size."""


@contextmanager
def room_for(parts: Parts, file: Wanted) -> Iterator[None]:
    """Room for the file, kept until it stands in the table: others are being fetched at the same time.

    Raises StorageFull.
    """
    global _reserved
    size = file.size or GUESS
    with _guard:
        _make_sure_of_room(parts, file, _reserved + size)
        _reserved += size
    try:
        yield
    finally:
        with _guard:
            _reserved -= size


def _make_sure_of_room(parts: Parts, file: Wanted, size: int) -> None:
    # The archive may lie on a disk of its own.
    folder = (parts.settings.storage.data_dir / file.path).parent
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free - size < LEFT_FREE:
        raise StorageFull(f"less than 2 GB are left in {folder}; no file is fetched until there is room")
    budget = parts.settings.recordings.max_gb * 10**9
    if not budget:
        return
    with parts.mirror.read() as connection:
        stored = media.stored_bytes(connection)
    if stored + size > budget:
        raise StorageFull(
            f"the archive has reached recordings.max_gb ({parts.settings.recordings.max_gb:g} GB); raise it, "
            "or no further file is fetched"
        )


_reserved = 0
"""Bytes of the files that are being fetched."""

_guard = threading.Lock()
