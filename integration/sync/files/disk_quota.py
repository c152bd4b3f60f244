"""Disk space for downloads, and the budget of the archive."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from integration.core.errors import StorageFull
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaFile
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT
from integration.sync.context import SyncContext

ASSUMED_FILE_BYTES = 10 * 10**6
"""Bytes reserved for a file whose record has no size."""


@contextmanager
def reserve_space(context: SyncContext, file: MediaFile) -> Iterator[None]:
    """Reserve disk space for `file` until its download is recorded.

    Downloads run concurrently. Raises StorageFull.
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
    # The archive may be on a separate disk.
    folder = (context.settings.storage.data_dir / file.path).parent
    while not folder.exists():
        folder = folder.parent
    if shutil.disk_usage(folder).free - size < MIN_FREE_BYTES:
        raise StorageFull(
            f"the disk of {folder} would have less than {MIN_FREE_TEXT} free;"
            " downloads stop until space is freed"
        )
    quota_bytes = context.settings.recordings.max_gb * 10**9
    if not quota_bytes:
        return
    with context.mirror_db.read() as connection:
        stored_bytes = media_files.count_stored_bytes(connection)
    if stored_bytes + size > quota_bytes:
        raise StorageFull(
            f"the archive has reached recordings.max_gb ({context.settings.recordings.max_gb:g} GB); "
            "downloads stop until recordings.max_gb is raised"
        )


_reserved_bytes = 0
"""Bytes reserved for running downloads."""

_reservation_lock = threading.Lock()
