"""The archive of recordings, voicemail and faxes: files fetched once, verified, kept."""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from integration.core import clock
from integration.core.errors import PlatformError, PlatformRefused, StorageError, StorageFull
from integration.mirror.page_queries.archive_queries import Kept
from integration.mirror.privacy import retention_rules as expiry
from integration.mirror.sync_state import media_files as media
from integration.mirror.sync_state import scrub_log as checks
from integration.mirror.sync_state.media_files import Kind, Wanted
from integration.platform_api import downloads as files
from integration.platform_api import file_types as formats
from integration.platform_api.budget import BACKGROUND, PEOPLE, Who
from integration.platform_api.shared_download import Arrival
from integration.settings.model import Settings
from integration.sync.context import Parts
from integration.sync.files import file_check as archived
from integration.sync.files.disk_quota import room_for

log = logging.getLogger(__name__)

BATCH = 40
AT_ONCE = 3

DOUBTS = 6
"""Failures after which a file that still comes the same is believed to be meant so: seven hours of them."""

AWAY_FAILURES = 3
"""Failures in a row that mean the platform is away, not that these files are bad."""


def enabled(settings: Settings) -> list[Kind]:
    """The kinds of files that are downloaded by themselves."""
    kinds: list[Kind] = []
    if settings.recordings.download:
        kinds.append("recording")
    if settings.voicemail.download:
        kinds.append("voicemail")
    if settings.faxes.download:
        kinds.append("fax")
    return kinds


def fetch_file(parts: Parts, kind: Kind, record_id: int, *, who: Who = PEOPLE) -> Path:
    """The path of a recording's or voice message's file, fetched and verified if it is not there yet.

    Whoever asks for a file that is being fetched waits for it. Raises PlatformRefused (404: no such record
    is mirrored, or the platform has it no more), other PlatformErrors, StorageFull, OSError.
    """
    file, arrival, ours = _join(parts, kind, record_id)
    if ours:
        _fetch(parts, file, arrival, who)
    return arrival.wait()


def open_file(parts: Parts, kind: Kind, record_id: int) -> Arrival:
    """As `fetch_file`, for whoever wants to read along: back as soon as the first bytes are there. The
    download goes on whatever becomes of its readers. Raises the same for what fails before that."""
    file, arrival, ours = _join(parts, kind, record_id)
    if ours:
        fetching = threading.Thread(
            target=_fetch,
            args=(parts, file, arrival, PEOPLE),
            name=f"fetch {arrival.target.name}",
            daemon=True,
        )
        try:
            fetching.start()
        except BaseException as error:
            _end(arrival, error)
            raise
    arrival.wait_for_begin()
    return arrival


def _join(parts: Parts, kind: Kind, record_id: int) -> tuple[Wanted, Arrival, bool]:
    """The file's one download, and whether it is the caller's to fetch; over where the file is in place."""
    with parts.mirror.read() as connection:
        file = media.find(connection, kind, record_id)
    if file is None:
        raise PlatformRefused(f"no {kind} {record_id} is mirrored", status=404)
    if (why := expiry.refusal(parts.mirror, kind, record_id, file.path)) is not None:
        due = [(record_id, file.path)]
        expiry.remove_files(parts.mirror, parts.settings.storage.data_dir, kind, due, why)
        said = "is older than retention keeps it" if why == expiry.EXPIRED else "was erased"
        raise PlatformRefused(f"{kind} {record_id} {said}", status=404)
    target = parts.settings.storage.data_dir / file.path
    with _guard:
        under_way = _arriving.get(target)
        if under_way is not None:
            return file, under_way, False
        arrival = _arriving[target] = Arrival(target)
    # Asked only now: whoever fetched it a moment ago has said so before leaving.
    try:
        with parts.mirror.read() as connection:
            known = media.state(connection, kind, record_id)
        there = _in_place(target, known)
    except BaseException as error:
        _end(arrival, error)
        raise
    if there:
        _end(arrival, None)
    return file, arrival, not there


def download_due(
    parts: Parts, wanted: Callable[[], bool] = lambda: True, told: Callable[[Wanted], None] | None = None
) -> int:
    """Fetch what is due, several at a time, until nothing is; returns how many arrived.

    A file's failure is noted with it and does not stop the others; a platform that is away does, and so
    does a full disk. `told(file)` after each. Raises PlatformError, StorageFull.
    """
    run = _Run(parts, wanted)
    workers = max(1, min(AT_ONCE, parts.settings.platform.max_concurrency - 1))
    tried: set[tuple[str, int]] = set()
    with ThreadPoolExecutor(workers, thread_name_prefix="download") as pool:
        while not run.over:
            with parts.mirror.read() as connection:
                due = media.wanted(connection, clock.unix(), enabled(parts.settings), BATCH)
            # A failed one is due again in two seconds: that is for the next run, others may wait behind it.
            batch = [file for file in due if (file.kind, file.record_id) not in tried]
            if not batch:
                break
            tried.update((file.kind, file.record_id) for file in batch)
            for file in pool.map(run.fetch, batch):
                if told is not None:
                    told(file)
    if run.failure is not None:
        raise run.failure
    return run.arrived


def prepare(parts: Parts) -> None:
    """Once at the start: remove what the last run did not live to finish, and want what nobody wanted yet."""
    for folder in set(media.FOLDERS.values()):
        for part in (parts.settings.storage.data_dir / folder).rglob("*.part"):
            with _guard:
                # Somebody may have asked for a file before this run.
                if part.with_suffix("") not in _arriving:
                    part.unlink(missing_ok=True)
    for kind in media.KINDS:
        parts.mirror.write(partial(media.want_missing, kind=kind))
        parts.mirror.write(partial(media.want_resized, kind=kind))


class _Run:
    """One run of downloads, shared by its threads. It is over when nobody wants it any more, when the
    platform is away – told by failures in a row that are not a file's own – or when the disk is full."""

    def __init__(self, parts: Parts, wanted: Callable[[], bool]) -> None:
        self._parts = parts
        self._wanted = wanted
        self._lock = threading.Lock()
        self._in_a_row = 0
        self.arrived = 0
        self.failure: PlatformError | StorageFull | None = None

    @property
    def over(self) -> bool:
        return self.failure is not None or not self._wanted()

    def fetch(self, file: Wanted) -> Wanted:
        if self.over:
            return file
        away = self._parts.platform.away_since is not None
        try:
            fetch_file(self._parts, file.kind, file.record_id, who=BACKGROUND)
        except StorageFull as error:
            self.failure = error
        except (PlatformError, OSError) as error:
            log.info("%s %s: %s", file.kind, file.record_id, error)
            if isinstance(error, PlatformError):
                self._note(error, away)
        else:
            with self._lock:
                self.arrived += 1
                self._in_a_row = 0
        return file

    def _note(self, error: PlatformError, away: bool) -> None:
        own = error.status == 200 or isinstance(error, PlatformRefused)
        with self._lock:
            self._in_a_row = 0 if own else self._in_a_row + 1
            if self._in_a_row >= (1 if away else AWAY_FAILURES):
                self.failure = error


def _fetch(parts: Parts, file: Wanted, arrival: Arrival, who: Who) -> None:
    """One download, and what the table says about it afterwards. Its failure is the arrival's."""
    failure: BaseException | None = None
    try:
        with room_for(parts, file):
            _download(parts, file, arrival, who)
    except (PlatformError, StorageError, OSError) as error:
        failure = error
    except BaseException as error:
        log.exception("%s %s could not be fetched", file.kind, file.record_id)
        failure = error
    finally:
        _end(arrival, failure)


def _end(arrival: Arrival, error: BaseException | None) -> None:
    with _guard:
        del _arriving[arrival.target]
    arrival.ended(error)


def _download(parts: Parts, file: Wanted, arrival: Arrival, who: Who) -> None:
    if _is_back(parts, file):
        return
    try:
        found = parts.platform.download(
            media.file_path(file.kind, file.record_id),
            arrival.target,
            _expected(file),
            who=who,
            arrival=arrival,
        )
    except PlatformRefused as error:
        if error.status == 404 and _record_is_gone(parts, file, who):
            parts.mirror.write(lambda tx: media.gone(tx, file))
        else:
            _note(parts, file, error)
        raise
    except PlatformError as error:
        _note(parts, file, error)
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Not this file's fault: it is due again as soon as there is room.
            raise StorageFull(f"{arrival.target.parent}: {error.strerror}; no file is fetched") from error
        _note(parts, file, error)
        raise
    parts.mirror.write(lambda tx: media.have(tx, file, found.size, found.sha256))


def _is_back(parts: Parts, file: Wanted) -> bool:
    """Whether the very file that was had lies in its place again: its disk was away."""
    with parts.mirror.read() as connection:
        known = media.state(connection, file.kind, file.record_id)
    if known is None or known["sha256"] is None or file.size not in (None, known["size"]):
        return False
    had = Kept(file.kind, file.record_id, file.path, known["size"], known["sha256"])
    if archived.fault(parts.settings.storage.data_dir, had) is not None:
        return False
    parts.mirror.write(lambda tx: checks.found_again(tx, had))
    return True


def _expected(file: Wanted) -> files.Expected:
    believed = file.last_error if file.tries >= DOUBTS else None
    if file.kind in ("recording", "voicemail"):
        end = formats.mp3_end(file.seconds)
        return files.Expected(file.size, begin=formats.mp3, end=end, believed=believed)
    if file.kind == "fax":
        return files.Expected(begin=formats.pdf, end=formats.pdf_end, believed=believed)
    return files.ANYTHING


def _note(parts: Parts, file: Wanted, error: Exception) -> None:
    said = str(error)
    parts.mirror.write(lambda tx: media.failed(tx, file, said))


def _record_is_gone(parts: Parts, file: Wanted, who: Who) -> bool:
    """A recording that is not ready answers 404, too; one that is gone has no record either."""
    try:
        parts.platform.item(media.record_path(file.kind, file.record_id), who=who, tries=1)
    except PlatformRefused as error:
        return error.status == 404
    except PlatformError:
        return False
    return False


def _in_place(target: Path, known: sqlite3.Row | None) -> bool:
    """Whether the file is had and really there: people move files, and a symbolic link is none."""
    if known is None or known["state"] != "have" or target.is_symlink():
        return False
    try:
        return bool(target.stat().st_size == known["size"])
    except OSError:
        return False


_arriving: dict[Path, Arrival] = {}
"""Downloads under way, one for each file."""

_guard = threading.Lock()
