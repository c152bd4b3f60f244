"""The archive is read again: what a disk forgot in silence is fetched anew while the platform still has it.

In the clockwork every file once in EVERY_DAYS, so much at a time that nobody notices; by
`verify --media` all of them now.

Where many are missing at once a disk is not there, and nothing is fetched in their place: it would fill the
disk below, and what the platform has no longer would be taken to be gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from integration.core import clock
from integration.core.errors import PlatformError, StorageFull
from integration.mirror.page_queries.archive_queries import Kept
from integration.mirror.sync_state import scrub_log as checks
from integration.mirror.sync_state.media_files import Kind
from integration.platform_api.budget import BACKGROUND
from integration.server.control_channel import Arguments, Handler, Progress, Result, Unfinished
from integration.sync.context import Parts
from integration.sync.files import download as recordings
from integration.sync.files import file_check as archived

log = logging.getLogger(__name__)

EVERY_DAYS = 30
RUN_SECONDS = 600.0
MOST_BYTES = 256 * 10**6
"""Bytes that one run of the clockwork reads: at a run in ten minutes, 36 GB a day."""

BATCH = 200

SAMPLE = 100
BRAKE = 20
"""Files of a sample that may be missing before their disk is."""

ALARM = "archive"
VERIFY_MEDIA = "verify-media"


def inspect_due(parts: Parts, wanted: Callable[[], bool] = lambda: True) -> int:
    """Read files that nobody read for EVERY_DAYS, the longest first; returns how many were damaged, which are
    wanted again."""
    if _disk_is_away(parts):
        return 0
    _take_back(parts)
    before = clock.stamp(clock.unix() - EVERY_DAYS * 86400)
    read = found = 0
    while wanted() and read < MOST_BYTES:
        with parts.mirror.read() as connection:
            batch = checks.due(connection, before, BATCH)
        sound: list[Kept] = []
        for file in batch:
            if not wanted() or read >= MOST_BYTES:
                break
            finding = archived.fault(parts.settings.storage.data_dir, file)
            if finding is None:
                sound.append(file)
            elif _disk_is_away(parts):
                return found
            else:
                found += _want_again(parts, file, finding)
            read += file.size or 0
        parts.mirror.write(lambda tx, sound=sound: checks.sound(tx, sound))  # type: ignore[misc]
        if len(batch) < BATCH:
            break
    return found


def handler(parts: Parts) -> Handler:
    """`verify-media`: read every file of the archive, and fetch again what is damaged. Its result: `files`
    read, `damaged` with {path, finding, healed, error} of each."""

    def verify(arguments: Arguments, progress: Progress) -> Result:
        kind, record_id = arguments.get("after", ("", 0))
        files = int(arguments.get("files", 0))
        damaged: list[dict[str, object]] = list(arguments.get("damaged", ()))
        with parts.mirror.read() as connection:
            total = checks.archive(connection).files
        while True:
            with parts.mirror.read() as connection:
                batch = checks.after(connection, kind, record_id, BATCH)
            sound: list[Kept] = []
            for file in batch:
                if not progress.wanted:
                    break
                finding = archived.fault(parts.settings.storage.data_dir, file)
                kind, record_id, files = file.kind, file.record_id, files + 1
                if finding is None:
                    sound.append(file)
                elif _want_again(parts, file, finding):
                    damaged.append({"path": file.path, "finding": finding, **_heal(parts, file)})
                progress(collection="files", done=files, total=max(total, files))
            parts.mirror.write(lambda tx, sound=sound: checks.sound(tx, sound))  # type: ignore[misc]
            if not progress.wanted:
                raise Unfinished(
                    {**arguments, "after": [kind, record_id], "files": files, "damaged": damaged}
                )
            if len(batch) < BATCH:
                return {"files": files, "damaged": damaged}

    return verify


def _want_again(parts: Parts, file: Kept, finding: str) -> bool:
    """Whether it is; it may have been replaced or removed meanwhile."""
    if not parts.mirror.write(lambda tx: checks.damaged(tx, file, finding)):
        return False
    log.warning("%s %s; it is fetched again", file.path, finding)
    return True


def _disk_is_away(parts: Parts) -> bool:
    """Whether so much is missing that it was not files that were lost. Shows in Health."""
    data_dir = parts.settings.storage.data_dir
    with parts.mirror.read() as connection:
        sample = checks.some(connection, SAMPLE)
    missing = sum(archived.fault(data_dir, file, quick=True) is not None for file in sample)
    if missing <= max(BRAKE, len(sample) / 2):
        parts.health.unwatch(ALARM)
        return False
    parts.health.fail(
        ALARM,
        f"{missing} of {len(sample)} files looked at in {data_dir} are missing; is the archive's disk there? "
        "`switchroom verify --media` fetches them again",
    )
    return True


def _take_back(parts: Parts) -> None:
    """What lies in its place again though the platform has it no longer: its disk was away."""
    with parts.mirror.read() as connection:
        lost = checks.lost(connection, BATCH)
    for file in lost:
        if archived.fault(parts.settings.storage.data_dir, file) is None:
            parts.mirror.write(partial(checks.found_again, file=file))


def _heal(parts: Parts, file: Kept) -> dict[str, object]:
    try:
        recordings.fetch_file(parts, cast(Kind, file.kind), file.record_id, who=BACKGROUND)
    except (PlatformError, StorageFull, OSError) as error:
        return {"healed": False, "error": str(error)}
    return {"healed": True, "error": None}
