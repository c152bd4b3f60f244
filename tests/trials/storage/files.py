"""Trial of downloads and of the archive."""

from __future__ import annotations

import argparse
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from integration.core import retry_delays
from integration.platform_api import downloads
from integration.simulator.media import audio
from integration.sync.files import disk_quota
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.trials.long_form import LongForm
from tests.trials.storage.archive import Archive
from tests.trials.storage.archived_files import (
    ANY_FILE,
    download_once,
    find_incomplete,
    find_wrong,
    hash_files,
    hash_platform_files,
    is_repaired,
    open_without_files,
)
from tests.trials.storage.interrupted_downloads import DownloadOrder, InterruptedDownloads
from tests.trials.tools.local_mirror import Later, LocalMirror, keep_newest, movable_clock
from tests.trials.trial import Trial

FAULTS = (
    "truncate",
    "truncate=0.99",
    "no-length",
    "no-length=0.99",
    "html",
    "empty",
    "wrong-file=zero",
    "wrong-file=short",
    "wrong-file=html",
    "malformed=json",
    "malformed=headers",
    "status=500",
    "status=404",
    "hang=1",
    "drip=2",
)
SLOW = ("hang", "drip")
MIN_SECONDS = 0.5
"""Seconds allowed for every download, instead of two minutes."""
LONG_CALL = 12_000
"""Seconds of a call whose recording is larger than the databases."""
MAX_FILE_BYTES = 8 * 2**20
Release = Callable[[], object]


class Files(Trial):
    """Archived files are absent or right; failures are repaired automatically.

    Disturbed: files are sent wrongly in fifteen ways, records have wrong sizes, disks are full
    (FileResponses); archived files are damaged (Archive); the product is killed during downloads
    (InterruptedDownloads); system calls are recorded (DownloadOrder).
    """

    name = "files"
    short = ("--kills 2", "--seed-bug")
    long = LongForm(
        promises=("P10",),
        rounds=("--kills 30",),
        minutes=12,
        remains="",
        expectation="files of the simulator, sha256; hand-written exchanges: trial `exchanges`",
    )

    @classmethod
    def main(cls, arguments: Sequence[str]) -> int:
        trials: tuple[type[Trial], ...] = (DownloadOrder, FileResponses, Archive, InterruptedDownloads)
        return max(trial.main(arguments) for trial in trials)


CUT_WITH_LENGTH = ("wrong-file=short", "malformed=json")
"""Faults that send a shorter file with its own Content-Length."""


def list_doubtful(mirror: LocalMirror) -> list[str]:
    """Paths of archived files with a recorded doubt."""
    with mirror.context.mirror_db.read() as connection:
        rows = connection.execute("SELECT path FROM media WHERE state = 'have' AND last_error IS NOT NULL")
        return [row[0] for row in rows]


class FileResponses(Trial):
    """Wrong files and full disks leave no wrong file in the archive.

    Disturbed: recordings, voicemail and faxes are sent wrongly in each way; records have a wrong size; the
    disk is full during a download: a tmpfs with the right to mount one (ENOSPC), RLIMIT_FSIZE (EFBIG).
    Checked: no wrong and no incomplete file is left; all files are right after the failure.
    Detects: downloads whose content is not checked.
    """

    name = "files"
    size_option, size = "--kills", 30
    bugs, symptoms = ("accept_any_file",), ("no wrong file",)
    expects_errors = True

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cdrs", type=int, default=8, help="calls at the platform")

    def disturb(self) -> None:
        self._send_wrong_files()
        if not self.is_seeded:
            self._change_sizes()
            self._fill_disk()

    def _send_wrong_files(self) -> None:
        min_seconds = downloads.MIN_SECONDS
        with self.embed_simulator(self.options.cdrs) as simulator, movable_clock() as later:
            keep_newest(simulator, monitors=3, voicemessages=2, faxes=2)
            for fault in FAULTS:
                is_slow = fault.startswith(SLOW)
                self.patch(downloads, "MIN_SECONDS", MIN_SECONDS if is_slow else min_seconds)
                settings = {"SWITCHROOM_PLATFORM__TIMEOUT": str(MIN_SECONDS)} if is_slow else {}
                with open_without_files(self, simulator, **settings) as mirror:
                    self._try_fault(mirror, fault, later)
                if self.is_seeded and self.failures:
                    return
        self.figures.append(f"{len(FAULTS)} ways to send wrong files")

    def _try_fault(self, mirror: LocalMirror, fault: str, later: Later) -> None:
        expected = hash_platform_files(mirror)
        mirror.set_fault(f"{fault}@{ANY_FILE}")
        download_once(mirror)
        if fault in CUT_WITH_LENGTH:
            # Without a size of its record, only a doubt can distinguish such a file from a complete one.
            doubtful = list_doubtful(mirror)
            self.verify(bool(doubtful), f"{fault}: files without a size are stored with a doubt")
            expected = {path: digest for path, digest in expected.items() if path not in doubtful}
            for path in doubtful:
                (mirror.data_dir / path).unlink()
        self._check_archive(mirror, expected, fault)
        mirror.set_fault("")
        is_right = is_repaired(mirror, later, expected)
        self.verify(is_right, f"{fault}: all files are right afterwards")

    def _check_archive(self, mirror: LocalMirror, expected: dict[str, str], where: str) -> None:
        wrong, incomplete = find_wrong(mirror.data_dir, expected), find_incomplete(mirror.data_dir)
        self.verify(not wrong, f"{where}: there is no wrong file, except {wrong}")
        self.verify(not incomplete, f"{where}: there is no incomplete file, except {incomplete}")

    def _change_sizes(self) -> None:
        """Let records have a wrong, zero or null size for a time."""
        with self.embed_simulator(self.options.cdrs) as simulator, movable_clock() as later:
            keep_newest(simulator, monitors=4, voicemessages=1, faxes=1)
            records = simulator.world.collections["monitors"].records
            sizes = {key: record["size"] for key, record in records.items()}
            for change, fault in (
                (lambda size: size + 1000, ""),
                (lambda _size: 0, "wrong-file=short"),
                (lambda _size: None, "wrong-file=short"),
            ):
                for key, record in records.items():
                    record["size"] = change(sizes[key])
                where = f"a record with {next(iter(records.values()))['size']} bytes"
                with open_without_files(self, simulator) as mirror:
                    expected = hash_platform_files(mirror)
                    mirror.set_fault(f"{fault}@/monitors/{ANY_FILE}" if fault else "")
                    download_once(mirror)
                    if not fault:
                        self._check_archive(mirror, expected, where)
                    mirror.set_fault("")
                    for key, record in records.items():
                        record["size"] = sizes[key]
                    later(5)
                    run_full_sync(mirror.context, PLAN["monitors"], restart=True)
                    repaired = is_repaired(mirror, later, expected)
                    self.verify(repaired, f"{where}: the file is right once the size is")

    def _fill_disk(self) -> None:
        with self.embed_simulator(self.options.cdrs) as simulator, movable_clock() as later:
            keep_newest(simulator, monitors=6, voicemessages=2, faxes=2)
            records = simulator.world.collections["monitors"].records
            records[max(records)].update(duration=LONG_CALL, size=audio.compute_size(LONG_CALL))
            for limit, where in ((_mount_tmpfs, "ENOSPC"), (_limit_file_size, "EFBIG")):
                with open_without_files(self, simulator) as mirror, limit(mirror) as release:
                    if release is None:
                        self.skip(f"{where}, without the right to mount")
                    else:
                        self._download_to_full_disk(mirror, release, later, where)

    def _download_to_full_disk(self, mirror: LocalMirror, release: Release, later: Later, where: str) -> None:
        expected = hash_platform_files(mirror)
        for _ in range(3):
            download_once(mirror)
            self._check_archive(mirror, expected, where)
            later(retry_delays.DOWNLOADS[1] + 1)
        missing = expected.keys() - hash_files(mirror.data_dir).keys()
        self.verify(bool(missing), f"{where}: a file did not fit")
        release()
        repaired = is_repaired(mirror, later, expected)
        self.verify(repaired, f"{where}: all files are right once there is space")
        self.figures.append(f"{where}: {len(missing)} of {len(expected)} files did not fit")


@contextmanager
def _mount_tmpfs(mirror: LocalMirror) -> Iterator[Release | None]:
    """Mount a disk of 128 KiB for recordings.

    Yields a function that enlarges it, or None without the right to mount.
    """
    folder = mirror.data_dir / "recordings"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "switchroom-trial", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    # Space is checked before each file; here the disk fills up after the check.
    reserved, disk_quota.MIN_FREE_BYTES = disk_quota.MIN_FREE_BYTES, -(10**15)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
    finally:
        disk_quota.MIN_FREE_BYTES = reserved
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _limit_file_size(mirror: LocalMirror) -> Iterator[Release | None]:
    """Limit the size of files: the long recording exceeds it.

    The databases do not. Yields a function that removes the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
