"""Room on the disk for what is being fetched."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from integration.core.errors import StorageFull
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaFile
from integration.sync.context import SyncContext

MIN_FREE_BYTES = 2 * 10**9
"""Bytes that the archive never takes (`recordings.max_gb`)."""

ASSUMED_FILE_BYTES = 10 * 10**6
"""Bytes to expect of a file whose record tells no size."""


@contextmanager
def reserve_space(context: SyncContext, file: MediaFile) -> Iterator[None]:
    """Room for the file, kept until it stands in the table: others are being fetched at the same time.

    Raises StorageFull.
    """
    global _reserved_bytes
    size = file.size or ASSUMED_FILE_BYTES
    with _reservation_lock:
        _check_space(context, file, _reserved_bytes + size)
        _reserved_bytes += size
    try:
        yield
    finally:
        with _reservation_lock:
            _reserved_bytes -= size


def _check_space(context: SyncContext, file: MediaFile, size: int) -> None:
    # The archive may lie on a disk of its own.
    folder = (context.settings.storage.data_dir / file.path).parent
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free - size < MIN_FREE_BYTES:
        raise StorageFull(f"less than 2 GB are left in {folder}; no file is fetched until there is room")
    quota_bytes = context.settings.recordings.max_gb * 10**9
    if not quota_bytes:
        return
    with context.mirror_db.read() as connection:
        stored_bytes = media_files.count_stored_bytes(connection)
    if stored_bytes + size > quota_bytes:
        raise StorageFull(
            f"the archive has reached recordings.max_gb ({context.settings.recordings.max_gb:g} GB); "
            "raise it, "
            "or no further file is fetched"
        )


_reserved_bytes = 0
"""Bytes of the files that are being fetched."""

_reservation_lock = threading.Lock()
