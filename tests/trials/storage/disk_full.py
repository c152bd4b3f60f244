"""Trial of a full disk."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.harness import wait_for
from tests.trials.tools.databases import find_lost, query_number
from tests.trials.tools.traffic import Readers, Senders, create_access
from tests.trials.trial import NO_TRAFFIC, Trial, await_new_worker, await_sync, kill_worker, until

MEGABYTES = 64
LEFT_BY_DOWNLOADS = 24
"""Free MiB below which downloads stop; see `small_disk` of tools/seeded_bug.py."""
RECOVERY_SECONDS = 60.0
MAX_LOG_LINES = 10
"""Highest number of log lines a second, because the log may be on the same disk."""


class Disk:
    """A small disk at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filling: threading.Event | None = None

    def fill(self, leave: int = 0) -> None:
        """Use all space but `leave` bytes.

        If `leave` is 0, space that is freed later is used as well.
        """
        with open(self.folder / "filler", "ab", buffering=0) as filler:
            while (free := self._get_free() - leave) > 0 and _grow(filler.fileno(), min(free, 2**20)):
                pass
        if leave == 0:
            self._filling = threading.Event()
            threading.Thread(target=self._keep_full, args=(self._filling,), daemon=True).start()

    def free(self) -> None:
        if self._filling is not None:
            self._filling.set()
        (self.folder / "filler").unlink()

    def _keep_full(self, stopping: threading.Event) -> None:
        with open(self.folder / "filler", "ab", buffering=0) as filler:
            while not stopping.wait(0.02):
                _grow(filler.fileno(), 4096)

    def _get_free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


def _grow(descriptor: int, size: int) -> bool:
    """Write `size` bytes. Returns False if the disk is full."""
    try:
        os.write(descriptor, b"\1" * size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@contextmanager
def mount_disk(folder: Path) -> Iterator[Disk]:
    """Mount a tmpfs. Requires root, or sudo without a password."""
    disk, sudo = folder / "disk", () if os.geteuid() == 0 else ("sudo", "-n")
    disk.mkdir()
    options = f"size={MEGABYTES}m,mode=700,uid={os.geteuid()}"
    subprocess.run([*sudo, "mount", "-t", "tmpfs", "-o", options, "none", str(disk)], check=True)
    try:
        yield Disk(disk)
    finally:
        subprocess.run([*sudo, "umount", "--lazy", str(disk)], check=True)


class FullDisk(Trial):
    """On a full disk unstored webhooks are not acknowledged; pages work.

    Disturbed: the disk of `data_dir`, a tmpfs of 64 MiB, fills up while webhooks arrive and pages are read;
    the worker is killed on the full disk; then there is space again.
    Checked: downloads stop first and report it; webhooks get 503 on the full disk and pages 200, before and
    after the kill; the log is not flooded; everything recovers automatically once there is space.
    Detects: webhooks that are acknowledged without being stored.
    """

    name = "full"
    bugs, symptoms, plants = ("acknowledge_unstored",), ("lost",), ("small_disk",)
    short = ("--seconds 2", "--seconds 2 --seed-bug")
    promises = ("P17",)
    long = ("--seconds 30",) * 2

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        help_text = "on the full disk, before and after a kill"
        parser.add_argument("--size", "--seconds", dest="seconds", type=float, default=60.0, help=help_text)

    @property
    def data_dir(self) -> Path:
        return self.disk.folder / "data"

    def boot(self) -> None:
        self.disk = self.cleanup.enter_context(mount_disk(self.folder))
        self.simulator = self.start_simulator(*NO_TRAFFIC, history=60)
        access = create_access(self.data_dir)
        self.pages = access.list_pages()
        self.product = self.start_product(self.data_dir, self.simulator, sync__recent_interval="2")
        await_sync(self.product, "cdrs", "monitors")

    def load(self) -> None:
        url = self.product.url + self.product.webhook_path
        self.simulator.control("POST", "webhook", {"url": url})
        self.senders = Senders(self.product.port, self.product.webhook_path, count=4)
        self.readers = Readers(self.product.port, self.pages)

    def disturb(self) -> None:
        if not self.is_seeded:
            self._fill_for_downloads()
        self.disk.fill()
        if self.is_seeded:
            # The log has space for the first events.
            until(lambda: find_lost(self.data_dir, self.senders.acknowledged), 60)
        else:
            self._check_full_disk()
        self._recover()
        self.readers.stop()
        self.senders.stop()

    def _fill_for_downloads(self) -> None:
        """Leave less space than downloads require."""
        wait_for(
            lambda: self._count_files(True) and not self._count_files(False), "the first recordings", 240
        )
        self.disk.fill(leave=(LEFT_BY_DOWNLOADS - 6) * 2**20)
        options = {"script": "plain_answered", "instant": True, "recorded": True, "cdr_lag": 0}
        made = self.simulator.control("POST", "calls", options)
        self.verify(bool(made["monitor_ids"]), "there is a recording to download")

        def is_reported() -> bool:
            checks = self.product.client.json("GET", "/readyz")["checks"]
            return any("downloads stop until" in str(check["error"]) for check in checks.values())

        self.verify_soon(is_reported, "downloads stop while webhooks have space, and report it")
        self.verify(self._count_files(False) > 0, "a recording is not downloaded")
        began, lines = time.monotonic(), len(self.product.lines)
        self.verify_soon(lambda: self.senders.since(began)[200] > 10, "webhooks are stored")
        self.verify(set(self.senders.since(began)) == {200}, "webhooks get 200 while downloads have stopped")
        until(lambda: self.senders.since(began)[200] > 200, 30)
        self._check_log(lines, began)

    def _check_full_disk(self) -> None:
        began = time.monotonic()
        self.verify_soon(lambda: self.senders.since(began)[503] > 0, "webhooks get 503 on the full disk")
        began, lines = time.monotonic(), len(self.product.lines)
        threading.Event().wait(self.options.seconds)
        self._check_pages(began, "on the full disk")
        self._check_log(lines, began)
        worker = kill_worker(self.product)
        killed = time.monotonic()
        await_new_worker(self.product, worker)
        ready = time.monotonic()
        threading.Event().wait(self.options.seconds)
        self._check_pages(ready + 1, "from a worker that started on the full disk")
        self.figures.append(
            f"{dict(self.senders.since(began))} on the full disk; ready {ready - killed:.1f} s after a kill"
        )

    def _check_log(self, before: int, began: float) -> None:
        rate = (len(self.product.lines) - before) / (time.monotonic() - began)
        self.verify(rate < MAX_LOG_LINES, f"the log is not flooded: {rate:.0f} lines a second")

    def _check_pages(self, began: float, when: str) -> None:
        until(lambda: len(self.readers.since(began)))
        read = self.readers.since(began)
        self.verify(set(read) == {200}, f"pages and facade get 200 {when}, not {dict(read)}")

    def _recover(self) -> None:
        self.disk.free()
        freed = time.monotonic()
        stored = "webhooks are stored once there is space"
        self.verify_soon(lambda: self.senders.since(freed)[200] > 10, stored, RECOVERY_SECONDS)
        recovered = time.monotonic() - freed
        fetched = "every recording is downloaded once there is space"
        self.verify_soon(lambda: not self._count_files(False), fetched, RECOVERY_SECONDS)
        complete = time.monotonic() - freed
        self.figures.append(
            f"with space webhooks are stored after {recovered:.1f} s, files after {complete:.1f} s"
        )

    def check(self) -> None:
        statuses = self.senders.statuses
        self.verify(set(statuses) <= {0, 200, 503}, f"webhooks get 200 or 503, not {dict(statuses)}")
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)

    def _count_files(self, is_present: bool) -> int:
        """Number of recordings that are downloaded, or that are not."""
        sql = "SELECT count(*) FROM media WHERE kind = 'recording' AND (state = 'have') = ?"
        return query_number(self.data_dir / "mirror.db", sql, is_present)
