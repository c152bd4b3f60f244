"""Downloads of recordings, voicemail, faxes, traces and captures into the archive."""

from __future__ import annotations

import errno
import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from integration.context import SyncContext
from integration.core import archive_paths, clock
from integration.core.errors import PlatformError, PlatformRefused, StorageError, StorageFull
from integration.mirror.privacy import retention_rules
from integration.mirror.sync_state import media_files, scrub_log
from integration.mirror.sync_state.media_files import MediaFile, MediaKind
from integration.mirror.sync_state.scrub_log import ArchivedFile
from integration.platform_api import downloads, file_types
from integration.platform_api.budget import BACKGROUND, INTERACTIVE, Priority, PrioritySource
from integration.platform_api.shared_download import SharedDownload
from integration.settings.model import Settings
from integration.settings.values import MIN_FREE_BYTES, MIN_FREE_TEXT
from integration.sync.files import file_check

log = logging.getLogger(__name__)

BATCH_SIZE = 40
"""Due files of one query."""
MAX_PARALLEL_DOWNLOADS = 3
"""Maximum number of concurrent downloads of a run."""

ACCEPT_AFTER_FAILURES = 6
"""Failures after which a file with an unchanged problem is accepted.

The acceptance is about seven hours after the first failure.
"""

ASSUMED_FILE_BYTES = 10 * 10**6
"""Bytes reserved for a file whose record has no size."""

OUTAGE_FAILURES = 3
"""Consecutive failures that indicate an unreachable platform instead of wrong files."""


def list_enabled_kinds(settings: Settings) -> list[MediaKind]:
    """List the kinds of files that the settings enable for automatic download."""
    kinds: list[MediaKind] = []
    if settings.recordings.download:
        kinds.append("recording")
    if settings.voicemail.download:
        kinds.append("voicemail")
    if settings.faxes.download:
        kinds.append("fax")
    return kinds


def fetch(context: SyncContext, kind: MediaKind, record_id: int, *, priority: Priority = INTERACTIVE) -> Path:
    """Return the path of a record's file, downloaded if it is missing.

    Waits for a running download of the file, which gets `priority` if that is higher. Raises PlatformRefused
    (404: the record is not mirrored, is erased or past its retention, or the platform has no such file),
    other PlatformErrors, StorageFull, OSError.
    """
    file, shared_download, is_owner = _join_download(context, kind, record_id, priority)
    if is_owner:
        _run_download(context, file, shared_download)
    return shared_download.wait()


def open_file(context: SyncContext, kind: MediaKind, record_id: int) -> SharedDownload:
    """Return a download as soon as its first bytes arrive.

    The download continues even if all readers disconnect. Raises the errors of `fetch` that occur before the
    first bytes.
    """
    file, shared_download, is_owner = _join_download(context, kind, record_id, INTERACTIVE)
    if is_owner:
        thread = threading.Thread(
            target=_run_download,
            args=(context, file, shared_download),
            name=f"fetch {shared_download.target.name}",
            daemon=True,
        )
        try:
            thread.start()
        except BaseException as error:
            _finish_download(shared_download, error)
            raise
    shared_download.wait_for_start()
    return shared_download


def _join_download(
    context: SyncContext, kind: MediaKind, record_id: int, priority: Priority
) -> tuple[MediaFile, SharedDownload, bool]:
    """Find or register the download of a file.

    The third value is True if the caller must run the download. The download has already ended if the file is
    in the archive.
    """
    with context.mirror_db.read() as connection:
        file = media_files.find(connection, kind, record_id)
    if file is None:
        raise PlatformRefused(f"no {kind} {record_id} is mirrored", status=404)
    if (
        refusal := retention_rules.find_refusal_reason(context.mirror_db, kind, record_id, file.path)
    ) is not None:
        due_files = [(record_id, file.path)]
        retention_rules.remove_files(
            context.mirror_db, context.settings.storage.data_dir, kind, due_files, refusal
        )
        reason = "is older than its retention" if refusal == retention_rules.EXPIRED_REASON else "was erased"
        raise PlatformRefused(f"{kind} {record_id} {reason}", status=404)
    target = context.settings.storage.data_dir / file.path
    with _downloads_lock:
        active_download = _active_downloads.get(target)
        if active_download is not None:
            active_download.join(priority)
            return file, active_download, False
        shared_download = _active_downloads[target] = SharedDownload(target, priority)
    # Read the state only now: a download that has just ended recorded it before it was unregistered.
    try:
        with context.mirror_db.read() as connection:
            stored_state = media_files.state(connection, kind, record_id)
        is_stored = _is_in_place(context.settings.storage.data_dir, file.path, stored_state)
    except BaseException as error:
        _finish_download(shared_download, error)
        raise
    if is_stored:
        _finish_download(shared_download, None)
    return file, shared_download, not is_stored


def download_due_files(
    context: SyncContext,
    should_continue: Callable[[], bool] = lambda: True,
    on_file: Callable[[MediaFile], None] | None = None,
) -> int:
    """Download due files concurrently until none is due.

    Returns the number of downloaded files. The failure of a file is stored with the file and does not stop
    the others. An unreachable platform and a full disk stop the run. `on_file(file)` is called after each
    file. Raises PlatformError, StorageFull.
    """
    run = _DownloadRun(context, should_continue)
    workers = max(1, min(MAX_PARALLEL_DOWNLOADS, context.settings.platform.max_concurrency - 1))
    tried_files: set[tuple[str, int]] = set()
    with ThreadPoolExecutor(workers, thread_name_prefix="download") as pool:
        while not run.is_over:
            with context.mirror_db.read() as connection:
                due_files = media_files.list_due(
                    connection, clock.unix(), list_enabled_kinds(context.settings), BATCH_SIZE
                )
            # A failed file is due after two seconds. The next run retries it, so that other files go first.
            batch = [file for file in due_files if (file.kind, file.record_id) not in tried_files]
            if not batch:
                break
            tried_files.update((file.kind, file.record_id) for file in batch)
            for file in pool.map(run.fetch, batch):
                if on_file is not None:
                    on_file(file)
    if run.failure is not None:
        raise run.failure
    return run.downloaded_count


def prepare_downloads(context: SyncContext) -> None:
    """Prepare downloads, once at the start.

    Removes partial files of an earlier process. Queues files that have no row yet, and files whose size
    differs from that of their record.
    """
    for folder in set(media_files.FOLDERS.values()):
        for partial_file in (context.settings.storage.data_dir / folder).rglob("*.part"):
            with _downloads_lock:
                # A request may have started a download before this call.
                if partial_file.with_suffix("") not in _active_downloads:
                    partial_file.unlink(missing_ok=True)
    for kind in media_files.AUTOMATIC_KINDS:
        context.mirror_db.write(partial(media_files.enqueue_missing, kind=kind))
        context.mirror_db.write(partial(media_files.enqueue_resized, kind=kind))


class _DownloadRun:
    """Run of downloads, shared by its threads.

    The run ends when it is cancelled, when the disk is full, or when the platform is unreachable, that is,
    after consecutive failures that do not concern a single file.
    """

    def __init__(self, context: SyncContext, should_continue: Callable[[], bool]) -> None:
        self._context = context
        self._should_continue = should_continue
        self._lock = threading.Lock()
        self._consecutive_failures = 0
        self.downloaded_count = 0
        self.failure: PlatformError | StorageFull | None = None

    @property
    def is_over(self) -> bool:
        return self.failure is not None or not self._should_continue()

    def fetch(self, file: MediaFile) -> MediaFile:
        if self.is_over:
            return file
        was_unreachable = self._context.platform.unreachable_since is not None
        try:
            fetch(self._context, file.kind, file.record_id, priority=BACKGROUND)
        except StorageFull as error:
            self.failure = error
        except (PlatformError, OSError) as error:
            log.info("%s %s: %s", file.kind, file.record_id, error)
            if isinstance(error, PlatformError):
                self._record_failure(error, was_unreachable)
        else:
            with self._lock:
                self.downloaded_count += 1
                self._consecutive_failures = 0
        return file

    def _record_failure(self, error: PlatformError, was_unreachable: bool) -> None:
        is_file_error = error.status == 200 or isinstance(error, PlatformRefused)
        with self._lock:
            self._consecutive_failures = 0 if is_file_error else self._consecutive_failures + 1
            if self._consecutive_failures >= (1 if was_unreachable else OUTAGE_FAILURES):
                self.failure = error


def _run_download(context: SyncContext, file: MediaFile, shared_download: SharedDownload) -> None:
    """Run one download and record its result.

    Its error is passed to the readers of `shared_download`.
    """
    failure: BaseException | None = None
    try:
        with _reserve_space(context, file):
            _download_file(context, file, shared_download)
    except (PlatformError, StorageError, OSError) as error:
        failure = error
    except BaseException as error:
        log.exception("cannot download %s %s", file.kind, file.record_id)
        failure = error
    finally:
        _finish_download(shared_download, failure)


def _finish_download(shared_download: SharedDownload, error: BaseException | None) -> None:
    with _downloads_lock:
        del _active_downloads[shared_download.target]
    shared_download.mark_ended(error)


def _download_file(context: SyncContext, file: MediaFile, shared_download: SharedDownload) -> None:
    if _is_in_archive(context, file):
        return
    try:
        # A file itself that is a link is replaced by the download.
        if archive_paths.leads_out(context.settings.storage.data_dir, str(Path(file.path).parent)):
            raise OSError(errno.ELOOP, "a folder of its path is a symbolic link", file.path)
        downloaded = context.platform.download(
            media_files.get_platform_file_path(file.kind, file.record_id),
            shared_download.target,
            _get_expected_content(file),
            priority=shared_download.get_priority,
            shared_download=shared_download,
        )
    except PlatformRefused as error:
        if error.status == 404 and _is_record_deleted(context, file, shared_download.get_priority):
            context.mirror_db.write(lambda tx: media_files.mark_missing(tx, file))
        else:
            _store_failure(context, file, error)
        raise
    except PlatformError as error:
        _store_failure(context, file, error)
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Not stored as a failure of this file: it stays due until there is space.
            raise StorageFull(
                f"{shared_download.target.parent}: {error.strerror}; downloads stop until space is freed"
            ) from error
        _store_failure(context, file, error)
        raise
    context.mirror_db.write(
        lambda tx: media_files.mark_present(tx, file, downloaded.size, downloaded.sha256, downloaded.doubt)
    )


def _is_in_archive(context: SyncContext, file: MediaFile) -> bool:
    """Return whether the archive has the file although its state differs.

    Marks it as present. An earlier download may have reappeared with its disk, or mirror.db was rebuilt.
    """
    data_dir = context.settings.storage.data_dir
    with context.mirror_db.read() as connection:
        stored_state = media_files.state(connection, file.kind, file.record_id)
    if stored_state is None or stored_state["sha256"] is None:
        if file.kind not in media_files.AUTOMATIC_KINDS:
            return False  # Traces have neither a size nor a known end.
        archived_file = ArchivedFile(file.kind, file.record_id, file.path, file.size, None)
        found = file_check.recognize_file(data_dir, archived_file, _get_expected_content(file))
        if found is None:
            return False
        size, sha256 = found
        context.mirror_db.write(lambda tx: media_files.mark_present(tx, file, size, sha256))
        return True
    if file.size not in (None, stored_state["size"]):
        return False
    previous_file = ArchivedFile(
        file.kind, file.record_id, file.path, stored_state["size"], stored_state["sha256"]
    )
    if file_check.find_fault(data_dir, previous_file) is not None:
        return False
    context.mirror_db.write(lambda tx: scrub_log.mark_restored(tx, previous_file))
    return True


def _get_expected_content(file: MediaFile) -> downloads.Expected:
    accepted_error = file.last_error if file.tries >= ACCEPT_AFTER_FAILURES else None
    if file.kind in ("recording", "voicemail"):
        end = file_types.make_mp3_end_check(file.seconds)
        return downloads.Expected(
            file.size, check_head=file_types.check_mp3_head, check_end=end, accepted_problem=accepted_error
        )
    if file.kind == "fax":
        return downloads.Expected(
            check_head=file_types.check_pdf_head,
            check_end=file_types.check_pdf_end,
            accepted_problem=accepted_error,
        )
    return downloads.ANY_FILE


def _store_failure(context: SyncContext, file: MediaFile, error: Exception) -> None:
    message = str(error)
    context.mirror_db.write(lambda tx: media_files.mark_failed(tx, file, message))


def _is_record_deleted(context: SyncContext, file: MediaFile, priority: PrioritySource) -> bool:
    """Return whether the platform has deleted the record too.

    A 404 of the file alone can mean that the recording is not ready.
    """
    try:
        context.platform.item(
            media_files.get_platform_record_path(file.kind, file.record_id), priority=priority, tries=1
        )
    except PlatformRefused as error:
        return error.status == 404
    except PlatformError:
        return False
    return False


def _is_in_place(data_dir: Path, relative_path: str, stored_state: sqlite3.Row | None) -> bool:
    """Return whether the file is recorded and present with its size.

    Users may move files. A file behind a symbolic link does not count as present.
    """
    is_present = stored_state is not None and stored_state["state"] == "have"
    if stored_state is None or not is_present or archive_paths.leads_out(data_dir, relative_path):
        return False
    try:
        return bool((data_dir / relative_path).stat().st_size == stored_state["size"])
    except OSError:
        return False


_active_downloads: dict[Path, SharedDownload] = {}
"""Running downloads by target path."""

_downloads_lock = threading.Lock()

_reserved_bytes = 0
"""Bytes reserved for running downloads."""
_reservation_lock = threading.Lock()


@contextmanager
def _reserve_space(context: SyncContext, file: MediaFile) -> Iterator[None]:
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
