"""Archive damage and download limits, as part of the trial `files`."""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from integration.core.commands import Progress
from integration.core.errors import StorageFull
from integration.mirror.sync_state import media_files, scrub_log
from integration.platform_api import downloads
from integration.platform_api.budget import INTERACTIVE
from integration.sync.files import download as recordings
from integration.sync.files import scrub
from integration.sync.plan import PLAN
from integration.sync.reading.incremental_sync import run_incremental_sync
from tests.trials.storage.archived_files import (
    ANY_FILE,
    download_once,
    find_incomplete,
    hash_files,
    hash_platform_files,
    is_repaired,
    open_without_files,
)
from tests.trials.tools.local_mirror import Later, LocalMirror, keep_newest, movable_clock
from tests.trials.trial import Trial, until

MONTH = (scrub.SCRUB_INTERVAL_DAYS + 1) * 86400.0
FILE_LIMIT = 500
"""Bytes of a file that is too large."""


def _flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _delete_neighbours(path: Path) -> None:
    for other in sorted(path.parent.iterdir())[:5]:
        other.unlink()


def _replace_by_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)


DAMAGES: tuple[Callable[[Path], Any], ...] = (
    _flip_bit,
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(b""),
    Path.unlink,
    _replace_by_link,
    _delete_neighbours,
)


class Archive(Trial):
    """Damaged files are downloaded again, and downloads keep to their limits.

    Disturbed: files are changed, truncated, emptied, deleted and replaced by links; their disk is not
    mounted; recordings.max_gb is small; people and new recordings compete with 60 old ones; a file is
    too large.
    Checked: the monthly scrub and `verify --media` find and repair all damage; nothing is downloaded while
    the disk is missing; the newest recordings come first, few at a time, and delay no user.
    Detects: a check of files that finds no damage.
    """

    name = "files"
    size_option, size = "--kills", 30
    bugs, symptoms = ("skip_file_check",), ("verify --media",)
    expects_errors = True

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cdrs", type=int, default=8, help="calls at the platform")

    def disturb(self) -> None:
        if not self.is_seeded:
            with self.embed_simulator(self.options.cdrs) as simulator, movable_clock() as later:
                keep_newest(simulator, monitors=60, voicemessages=2, faxes=2)
                with open_without_files(self, simulator) as mirror:
                    self._repair_within_a_month(mirror, later)
                with open_without_files(self, simulator) as mirror:
                    self._unmount_disk(mirror, later)
                with open_without_files(self, simulator, SWITCHROOM_RECORDINGS__MAX_GB="0.001") as mirror:
                    self._limit_total_size(mirror)
                with open_without_files(self, simulator) as mirror:
                    self._compete(mirror)
                keep_newest(simulator, monitors=3)
                with open_without_files(self, simulator) as mirror:
                    self._limit_file_size(mirror, later)
        with self.embed_simulator(self.options.cdrs) as simulator:
            keep_newest(simulator, monitors=20, voicemessages=2, faxes=2)
            with open_without_files(self, simulator) as mirror:
                self._verify_on_demand(mirror)

    # --- damage ----------------------------------------------------------------------------------------

    def _repair_within_a_month(self, mirror: LocalMirror, later: Later) -> None:
        expected = hash_platform_files(mirror)
        with mirror.run_jobs():
            self.verify_soon(
                lambda: hash_files(mirror.data_dir) == expected, "all files are downloaded at first"
            )
            damaged = _damage(mirror)
            later(MONTH)
            repaired = f"{damaged} damaged files are repaired automatically within a month"
            self.verify_soon(lambda: _is_intact(mirror.data_dir, expected), repaired)
        with mirror.mirror_db.read() as connection:
            reported = len(scrub_log.get_archive_state(connection, 100).damaged_files)
        self.verify(reported == damaged, f"{damaged} damaged files are reported, not {reported}")
        self.figures.append(f"{damaged} damaged files repaired")

    def _verify_on_demand(self, mirror: LocalMirror) -> None:
        """Repair damage as `verify --media` does."""
        expected = hash_platform_files(mirror)
        recordings.download_due_files(mirror.context)
        damaged = _damage(mirror)
        progress = Progress(lambda _facts: None, lambda: True)
        found = scrub.verify_archive(mirror.context, {}, progress)["damaged"]
        repaired = sum(bool(one["healed"]) for one in found)
        is_complete = repaired == damaged == len(found)
        self.verify(is_complete, f"verify --media repairs {damaged} files, not {repaired} of {len(found)}")
        self.verify(_is_intact(mirror.data_dir, expected), "verify --media: all files are right afterwards")

    def _unmount_disk(self, mirror: LocalMirror, later: Later) -> None:
        folder, expected = mirror.data_dir, hash_platform_files(mirror)
        recordings.download_due_files(mirror.context)
        later(MONTH)
        (folder / "recordings").rename(folder / "not mounted")
        mirror.simulator.context.request_log.clear()
        for _ in range(2):
            scrub.scrub_due_files(mirror.context)
            recordings.download_due_files(mirror.context)
            later(600)
        requested = _list_requested(mirror)
        self.verify(not requested, f"without its disk no file is downloaded, not {len(requested)}")
        error = mirror.get_health_error(scrub.HEALTH_CHECK)
        self.verify(
            "Check that the disk of the archive is mounted." in error,
            f"the missing disk is reported, not {error!r}",
        )
        (folder / "not mounted").rename(folder / "recordings")
        scrub.scrub_due_files(mirror.context)
        error = mirror.get_health_error(scrub.HEALTH_CHECK)
        self.verify(not error, f"the disk is no longer reported as missing, not {error!r}")
        states = {row[0] for row in mirror.query("SELECT state FROM media")}
        is_right = hash_files(folder) == expected and states == {"have"}
        self.verify(is_right, f"with its disk the archive is complete, not {states}")

    # --- limits ----------------------------------------------------------------------------------------

    def _limit_total_size(self, mirror: LocalMirror) -> None:
        message = ""
        try:
            recordings.download_due_files(mirror.context)
        except StorageFull as error:
            message = str(error)
        self.verify("recordings.max_gb" in message, f"the error names the setting, not {message!r}")
        with mirror.mirror_db.read() as connection:
            stored = media_files.count_stored_bytes(connection)
        sql = "SELECT state FROM media WHERE kind = 'recording' ORDER BY record_id DESC"
        states = [row[0] for row in mirror.query(sql)]
        self.verify(stored <= 10**6, f"at most 1,000,000 bytes are stored, not {stored:,}")
        fitting = states.count("have")
        self.verify(0 < fitting < len(states), f"a part of {len(states)} recordings fits, not {fitting}")
        # Several downloads run at the limit; one may be smaller than the one that did not fit.
        newest = states[: max(0, fitting - recordings.MAX_PARALLEL_DOWNLOADS)]
        self.verify(set(newest) <= {"have"}, f"the newest recordings are stored, not {states}")
        self.figures.append(f"{fitting} of {len(states)} recordings fit")

    def _compete(self, mirror: LocalMirror) -> None:
        """Request a page and add a recording while old recordings are downloaded."""
        mirror.simulator.context.request_log.clear()
        with _count_parallel(mirror) as peak:
            # Three files, which are requested at the same time, take two seconds.
            mirror.set_fault(f"slow=2@{ANY_FILE}")
            thread = threading.Thread(target=recordings.download_due_files, args=(mirror.context,))
            thread.start()
            has_begun = until(lambda: _list_requested(mirror))
            mirror.platform.get("/ping", priority=INTERACTIVE)
            before_user = len(_list_requested(mirror))
            new = _add_recording(mirror)
            run_incremental_sync(mirror.context, PLAN["monitors"])
            before_new = len(_list_requested(mirror))
            mirror.set_fault("")
            thread.join(240)
        order = _list_requested(mirror)
        self.verify(
            has_begun and before_user < 30, f"the request of a user waits for few files, not {before_user}"
        )
        waited = order.index(new) - before_new if new in order else len(order)
        limit = recordings.BATCH_SIZE
        self.verify(waited <= limit, f"a new recording waits for at most {limit} old ones, not {waited}")
        old = [number for number in order if number != new]
        # Files that are requested at the same time come in any order.
        places = {number: place for place, number in enumerate(sorted(old, reverse=True))}
        is_descending = all(abs(place - places[number]) < 10 for place, number in enumerate(old))
        self.verify(is_descending, f"the newest recordings come first, not {old}")
        limit = recordings.MAX_PARALLEL_DOWNLOADS
        self.verify(1 < peak[0] <= limit, f"2 to {limit} downloads run at the same time, not {peak[0]}")
        self.figures.append(f"{peak[0]} downloads at a time")

    def _limit_file_size(self, mirror: LocalMirror, later: Later) -> None:
        expected = hash_platform_files(mirror)
        with mock.patch.object(downloads, "Expected", partial(downloads.Expected, limit=FILE_LIMIT)):
            for _ in range(2):
                download_once(mirror)
            stored, incomplete = hash_files(mirror.data_dir), find_incomplete(mirror.data_dir)
            self.verify(not stored and not incomplete, f"no file exceeds the limit, not {len(stored)}")
        self.verify(is_repaired(mirror, later, expected), "all files are right with the usual limit")


def _damage(mirror: LocalMirror) -> int:
    """Damage files of each kind in each way.

    Returns the number of damaged files.
    """
    folder = mirror.data_dir
    before = hash_files(folder)
    rows = mirror.query(
        "SELECT path FROM media ORDER BY row_number() OVER (PARTITION BY kind ORDER BY record_id DESC), kind"
    )
    for number, damage in enumerate(DAMAGES * 2):
        path = folder / rows[number][0]
        if path.exists():
            damage(path)
    after = hash_files(folder)
    return sum(
        1 for path, found in before.items() if after.get(path) != found or (folder / path).is_symlink()
    )


def _is_intact(folder: Path, expected: dict[str, str]) -> bool:
    found = hash_files(folder)
    is_linked = any((folder / path).is_symlink() for path in expected)
    return expected.items() <= found.items() and not is_linked


def _list_requested(mirror: LocalMirror) -> list[int]:
    """Recordings whose files were requested, in order."""
    paths = [entry["path"] for entry in list(mirror.simulator.context.request_log)]
    return [int(found[1]) for path in paths if (found := re.fullmatch(r"/monitors/(\d+)\.mp3", path))]


def _add_recording(mirror: LocalMirror) -> int:
    """Add a recording at the platform. Returns its id."""
    world = mirror.simulator.world
    monitors = world.collections["monitors"]
    with world.lock:
        record = {**monitors.records[max(monitors.records)], "id": world.new_id("monitors")}
        monitors.add(record)
    return int(record["id"])


@contextmanager
def _count_parallel(mirror: LocalMirror) -> Iterator[list[int]]:
    """Yield the highest number of parallel downloads, as a list's entry."""
    real, lock, peak, running = mirror.platform.download, threading.Lock(), [0], 0

    def download(*arguments: Any, **options: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
            peak[0] = max(peak[0], running)
        try:
            return real(*arguments, **options)
        finally:
            with lock:
                running -= 1

    with mock.patch.object(mirror.platform, "download", download):
        yield peak
