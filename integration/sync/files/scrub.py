"""Scrub of the archive: read files periodically and download damaged files again.

Disks can corrupt files without an error. A damaged file can be replaced while the platform still has it. The
scheduler reads each file once in SCRUB_INTERVAL_DAYS, in small batches; `verify --media` reads all files now.

If many files are missing at once, their disk is assumed to be absent and no file is downloaded. Downloads
would fill the disk below the mount point, and files that the platform no longer has would be marked as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from integration.context import SyncContext
from integration.core import clock
from integration.core.commands import Arguments, Progress, Result, Unfinished, command
from integration.core.errors import PlatformError, StorageFull
from integration.mirror.sync_state import scrub_log
from integration.mirror.sync_state.media_files import MediaKind
from integration.mirror.sync_state.scrub_log import ArchivedFile
from integration.platform_api.budget import BACKGROUND
from integration.sync.files import download, file_check

log = logging.getLogger(__name__)

SCRUB_INTERVAL_DAYS = 30
"""Days between two reads of a file."""
RUN_INTERVAL_SECONDS = 600.0
"""Seconds between runs of the job."""
MAX_BYTES_PER_RUN = 256 * 10**6
"""Bytes after which a run ends.

With a run every ten minutes that is 36 GB per day.
"""

BATCH_SIZE = 200
"""Files of one query."""

SAMPLE_SIZE = 100
"""Files that are checked to detect an absent disk."""
MAX_MISSING_IN_SAMPLE = 20
"""Missing files of a sample above which the disk may be absent.

More than half of the sample must be missing too.
"""

HEALTH_CHECK = "archive"
"""Name of the health check that fails while the disk is absent."""


def scrub_due_files(context: SyncContext, should_continue: Callable[[], bool] = lambda: True) -> int:
    """Check files that were not read for SCRUB_INTERVAL_DAYS, the longest unread first.

    Damaged files are queued for download. Returns their number.
    """
    if _is_disk_missing(context):
        return 0
    _restore_reappeared_files(context)
    checked_before = clock.utc_text(clock.unix() - SCRUB_INTERVAL_DAYS * 86400)
    bytes_read = damaged_count = 0
    while should_continue() and bytes_read < MAX_BYTES_PER_RUN:
        with context.mirror_db.read() as connection:
            batch = scrub_log.due(connection, checked_before, BATCH_SIZE)
        intact_files: list[ArchivedFile] = []
        for file in batch:
            if not should_continue() or bytes_read >= MAX_BYTES_PER_RUN:
                break
            fault = file_check.find_fault(context.settings.storage.data_dir, file)
            if fault is None:
                intact_files.append(file)
            elif _is_disk_missing(context):
                return damaged_count
            else:
                damaged_count += _request_refetch(context, file, fault)
            bytes_read += file.size or 0
        context.mirror_db.write(lambda tx, intact_files=intact_files: scrub_log.mark_intact(tx, intact_files))  # type: ignore[misc]
        if len(batch) < BATCH_SIZE:
            break
    return damaged_count


@command("archive.verify")
def verify_archive(context: SyncContext, arguments: Arguments, progress: Progress) -> Result:
    """Read every file of the archive and download damaged files again.

    The result has `files`, the number of files read, and `damaged`, a list of {path, finding, healed, error}.
    `after`, `files` and `damaged` of `arguments` continue an interrupted run.
    """
    kind, record_id = arguments.get("after", ("", 0))
    files_read = int(arguments.get("files", 0))
    damaged: list[dict[str, object]] = list(arguments.get("damaged", ()))
    with context.mirror_db.read() as connection:
        total = scrub_log.get_archive_state(connection).file_count
    while True:
        with context.mirror_db.read() as connection:
            batch = scrub_log.list_after(connection, kind, record_id, BATCH_SIZE)
        intact_files: list[ArchivedFile] = []
        for file in batch:
            if not progress.can_continue:
                break
            fault = file_check.find_fault(context.settings.storage.data_dir, file)
            kind, record_id, files_read = file.kind, file.record_id, files_read + 1
            if fault is None:
                intact_files.append(file)
            elif _request_refetch(context, file, fault):
                damaged.append({"path": file.path, "finding": fault, **_refetch(context, file)})
            progress(collection="files", done=files_read, total=max(total, files_read))
        context.mirror_db.write(partial(scrub_log.mark_intact, files=intact_files))
        if not progress.can_continue:
            raise Unfinished(
                {**arguments, "after": [kind, record_id], "files": files_read, "damaged": damaged}
            )
        if len(batch) < BATCH_SIZE:
            return {"files": files_read, "damaged": damaged}


def repair_file(context: SyncContext, kind: str, record_id: int) -> str | None:
    """Check one file and download it again if it is damaged.

    Returns the error, or None.
    """
    with context.mirror_db.read() as connection:
        file = next(iter(scrub_log.list_after(connection, kind, record_id - 1, 1)), None)
    if file is None or (file.kind, file.record_id) != (kind, record_id):
        return None
    fault = file_check.find_fault(context.settings.storage.data_dir, file)
    if fault is None or not _request_refetch(context, file, fault):
        return None
    error = _refetch(context, file)["error"]
    return None if error is None else str(error)


def _request_refetch(context: SyncContext, file: ArchivedFile, fault: str) -> bool:
    """Queue a damaged file for download.

    Returns False if it was replaced or removed since the check.
    """
    if not context.mirror_db.write(lambda tx: scrub_log.mark_damaged(tx, file, fault)):
        return False
    log.warning("%s %s; downloading again", file.path, fault)
    return True


def _is_disk_missing(context: SyncContext) -> bool:
    """Return whether the disk of the archive appears to be absent.

    It is if too many files of a sample are faulty. Sets or removes the health check.
    """
    data_dir = context.settings.storage.data_dir
    with context.mirror_db.read() as connection:
        sample = scrub_log.sample_files(connection, SAMPLE_SIZE)
    missing_count = sum(file_check.find_fault(data_dir, file, quick=True) is not None for file in sample)
    if missing_count <= max(MAX_MISSING_IN_SAMPLE, len(sample) / 2):
        context.health.unwatch(HEALTH_CHECK)
        return False
    context.health.fail(
        HEALTH_CHECK,
        f"{missing_count} of {len(sample)} sampled files in {data_dir} are missing. "
        "Check that the disk of the archive is mounted. "
        "If the files are lost, `switchroom verify --media` downloads them again.",
    )
    return True


def _restore_reappeared_files(context: SyncContext) -> None:
    """Restore files that reappeared after their disk was absent.

    The platform has deleted these files.
    """
    with context.mirror_db.read() as connection:
        missing_files = scrub_log.sample_missing_files(connection, BATCH_SIZE)
    for file in missing_files:
        if file_check.find_fault(context.settings.storage.data_dir, file) is None:
            context.mirror_db.write(partial(scrub_log.mark_restored, file=file))


def _refetch(context: SyncContext, file: ArchivedFile) -> dict[str, object]:
    try:
        download.fetch(context, cast(MediaKind, file.kind), file.record_id, priority=BACKGROUND)
    except (PlatformError, StorageFull, OSError) as error:
        return {"healed": False, "error": str(error)}
    return {"healed": True, "error": None}
