"""Promise P17: the disk is full.

`data_dir` is a small file system of its own, a tmpfs, which only root may mount. The room that downloads
leave is scaled down with it. As the disk fills up downloads stop first, and say so. When nothing is left, no
webhook that is not stored gets a 2xx, pages and facade are read as ever, also when the worker is killed and
starts anew on the full disk. Once there is room again everything heals by itself.

Where nothing may be mounted the trial says so, and has a library tell the product that the disk is full
(`shim.py`): the same to its databases, but nothing is learnt about downloads.

    python -m tests.trials full [--seconds N]       a minute on the full disk
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.harness import Product, Simulator, wait_for
from tests.trials.sync.platform import Report, friday_evening, until
from tests.trials.tools import disk_shim as shim
from tests.trials.tools.traffic import PLANTED, Readers, Senders, ask, damaged, furnish, lost, pages
from tests.trials.webhooks.crash import await_new_worker, unapplied

MEGABYTES = 64
LEFT_BY_DOWNLOADS = 24
HEAL_SECONDS = 60.0
LOGGED_EACH_SECOND = 10
"""Lines of the log meanwhile, at most: it may well lie on the same disk."""


@dataclass
class Disk:
    """`take(leave)` uses up all but `leave` bytes; without it all, and what becomes free later, too."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    _shim: shim.Shim | None = None
    _filling: threading.Event | None = None

    @property
    def real(self) -> bool:
        return self._shim is None

    def take(self, leave: int = 0) -> None:
        if self._shim is not None:
            self._shim.fail(*([f"room {self.folder}"] if leave == 0 else []))
            return
        with open(self.folder / "filler", "ab", buffering=0) as filler:
            while (free := self._free() - leave) > 0 and self._grow(filler.fileno(), min(free, 2**20)):
                pass
        if leave == 0 and self._filling is None:
            self._filling = threading.Event()
            threading.Thread(target=self._keep_full, args=(self._filling,), daemon=True).start()

    def free(self) -> None:
        if self._shim is not None:
            self._shim.fail()
            return
        if self._filling is not None:
            self._filling.set()
        (self.folder / "filler").unlink()

    def _keep_full(self, enough: threading.Event) -> None:
        with open(self.folder / "filler", "ab", buffering=0) as filler:
            while not enough.wait(0.02):
                self._grow(filler.fileno(), 4096)

    def _free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    @staticmethod
    def _grow(descriptor: int, size: int) -> bool:
        try:
            os.write(descriptor, b"\1" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return False
        return True


@contextmanager
def _disk(report: Report) -> Iterator[Disk]:
    with tempfile.TemporaryDirectory(prefix="switchroom-full-") as made:
        folder = Path(made).resolve() / "disk"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=700", "none", str(folder)]
        mounted = (
            os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        )
        if not mounted:
            print(f"{report.name}: NOTHING MAY BE MOUNTED HERE: a library says that the disk is full;")
            print(f"{report.name}: what downloads do is not tried")
            library = shim.make(folder.parent, folder)
            yield Disk(folder, library.environment, library)
            return
        try:
            yield Disk(folder)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials full")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="on the full disk, before and after a kill"
    )
    parser.add_argument("--seed-bug", action="store_true", help="acknowledge what could not be stored")
    options = parser.parse_args(arguments)
    report = Report("full")
    simulator = Simulator("--seed", "5", "--no-traffic", "--cdrs", "60", "--start", str(friday_evening()))
    try:
        with _disk(report) as disk:
            told = _try(disk, simulator, options, report)
    finally:
        simulator.stop()
    found = any("lost" in promise for promise in report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


def _try(disk: Disk, simulator: Simulator, options: argparse.Namespace, report: Report) -> str:
    folder = disk.folder / "data"
    visitor = furnish(folder)
    product = Product(
        folder,
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        program=(*PLANTED, "small_disk,hopeful" if options.seed_bug else "small_disk"),
        environment=disk.environment,
        sync__recent_interval="2",
        sync__max_requests_per_minute="6000",
    )
    try:
        walked = (
            "SELECT count(*) = 2 FROM _walks WHERE collection IN ('cdrs', 'monitors') AND complete_at > ''"
        )
        wait_for(lambda: ask(folder / "mirror.db", walked), "a first walk", 240)
        simulator.control("POST", "webhook", {"url": product.url + product.webhook_path})
        senders = Senders(product.port, product.webhook_path, count=4)
        readers = Readers(product.port, pages(visitor))
        if disk.real and not options.seed_bug:
            _downloads_stop(disk, folder, product, simulator, senders, report)
        told = _nothing_left(disk, product, senders, readers, options, report)
        told += _heals(disk, folder, simulator, senders, report)
        readers.stop()
        senders.stop()
        _judge(folder, senders, report)
    finally:
        product.stop(30)
    if not options.seed_bug:
        report.check(not (found := damaged(folder)), f"the databases are whole, not {found}")
    return told


def _downloads_stop(
    disk: Disk, folder: Path, product: Product, simulator: Simulator, senders: Senders, report: Report
) -> None:
    wait_for(lambda: _files(folder)[0] > 0 and not _files(folder)[1], "the first recordings", 240)
    disk.take(leave=(LEFT_BY_DOWNLOADS - 6) * 2**20)
    made = simulator.control(
        "POST", "calls", {"script": "plain_answered", "instant": True, "recorded": True, "cdr_lag": 0}
    )
    report.check(bool(made["monitor_ids"]), "there is something to download")

    def says_so() -> bool:
        checks = product.client.json("GET", "/readyz")["checks"]
        return any("no file is fetched" in str(check["error"]) for check in checks.values())

    report.check(until(says_so), "downloads stop while there is still room, and say so")
    report.check(_files(folder)[1] > 0, "a file waits")
    began = time.monotonic()
    stored = until(lambda: senders.since(began)[200] > 10)
    report.check(stored and set(senders.since(began)) == {200}, "webhooks are stored meanwhile")
    began, lines = time.monotonic(), len(product.lines)
    until(lambda: senders.since(began)[200] > 200, 30)
    _quiet(product, lines, began, report)


def _nothing_left(
    disk: Disk,
    product: Product,
    senders: Senders,
    readers: Readers,
    options: argparse.Namespace,
    report: Report,
) -> str:
    disk.take()
    if options.seed_bug:
        # There is room in the log for what comes at first.
        until(lambda: lost(disk.folder / "data", senders.acknowledged), 60)
        return ""
    began = time.monotonic()
    report.check(until(lambda: senders.since(began)[503] > 0), "senders are told that the disk is full")
    began, lines = time.monotonic(), len(product.lines)
    threading.Event().wait(options.seconds)
    _readable(readers, began, "on the full disk", report)
    _quiet(product, lines, began, report)
    worker = product.worker
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    killed = time.monotonic()
    await_new_worker(product, worker)
    ready = time.monotonic()
    threading.Event().wait(options.seconds)
    _readable(readers, ready + 1, "by a worker that started on the full disk", report)
    return (
        f"{dict(senders.since(began))} to senders on the full disk; ready {ready - killed:.1f} s after a kill"
    )


def _quiet(product: Product, before: int, began: float, report: Report) -> None:
    logged = (len(product.lines) - before) / (time.monotonic() - began)
    report.check(logged < LOGGED_EACH_SECOND, f"the log is not flooded: {logged:.0f} lines a second")


def _readable(readers: Readers, began: float, when: str, report: Report) -> None:
    until(lambda: len(readers.since(began)))
    read = readers.since(began)
    report.check(set(read) == {200}, f"pages and facade are read {when}, not {dict(read)}")


def _heals(disk: Disk, folder: Path, simulator: Simulator, senders: Senders, report: Report) -> str:
    disk.free()
    freed = time.monotonic()
    report.check(
        until(lambda: senders.since(freed)[200] > 10, HEAL_SECONDS), "webhooks are stored once there is room"
    )
    healed = time.monotonic() - freed
    if disk.real:
        here = until(lambda: not _files(folder)[1], 2 * HEAL_SECONDS)
        report.check(here, f"every recording is fetched once there is room; {_files(folder)} had and not")
    whole = time.monotonic() - freed
    return f"; webhooks again {healed:.1f} s after there was room, all files after {whole:.1f} s"


def _judge(folder: Path, senders: Senders, report: Report) -> None:
    statuses = senders.statuses
    report.check(set(statuses) <= {0, 200, 503}, f"webhooks get 200 or 503, not {dict(statuses)}")
    report.check(until(lambda: not unapplied(folder)), "every stored event is applied in the end")
    missing = lost(folder, senders.acknowledged)
    report.check(not missing, f"no acknowledged event is lost; {len(missing)} are, such as {missing[:1]}")


def _files(folder: Path) -> tuple[int, int]:
    """Recordings that are here, and such as are not."""
    here = ask(folder / "mirror.db", "SELECT count(*) FROM media WHERE kind = 'recording' AND state = 'have'")
    every = ask(folder / "mirror.db", "SELECT count(*) FROM media WHERE kind = 'recording'")
    return here, every - here
