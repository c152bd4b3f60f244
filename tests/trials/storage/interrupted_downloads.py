"""Trial of interrupted downloads."""

from __future__ import annotations

import argparse
import base64
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from integration.mirror.sync_state import media_files
from integration.simulator import embed
from integration.sync.files import download
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import ROOT, Simulator, wait_for
from tests.trials.long_form import NOT_RUN, LongForm
from tests.trials.storage.archived_files import (
    ANY_FILE,
    DOWNLOADS,
    find_incomplete,
    find_wrong,
    hash_content,
    hash_files,
    hash_platform_files,
)
from tests.trials.tools import seeded_bug
from tests.trials.tools.databases import query_rows
from tests.trials.tools.local_mirror import keep_newest
from tests.trials.trial import NO_TRAFFIC, Trial, await_new_worker, kill_worker

MAX_STEPS = 99
CALLS = "trace=openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2"


class InterruptedDownloads(Trial):
    """A kill leaves no wrong file; the next start completes the archive.

    Disturbed: kill -9 before and after each step of a download, one after the other; then kills of the
    worker, or of the entire product, during downloads.
    Checked: no wrong file is there, stored rows match their files, and all files are right in the end.
    Detects: downloads that are written under their final name.
    """

    name = "files"
    size_option, size = "--kills", 30
    bugs, symptoms = ("write_final_name",), ("no wrong file",)
    expects_errors = True

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cdrs", type=int, default=8, help="calls at the platform")

    def disturb(self) -> None:
        with self.embed_simulator(self.options.cdrs) as simulator:
            self._kill_at_each_step(simulator)
        if not self.is_seeded:
            self._kill_product()

    # --- steps of one download -------------------------------------------------------------------------

    def _kill_at_each_step(self, simulator: embed.Simulator) -> None:
        keep_newest(simulator, monitors=1)
        begun = self.make_folder()
        with self.open_mirror(simulator, begun, **DOWNLOADS) as mirror:
            run_full_sync(mirror.context, PLAN["monitors"])
            expected = hash_platform_files(mirror)
        for path in expected:
            (begun / path).parent.mkdir(parents=True)
        for step in range(1, MAX_STEPS + 1):
            data_dir = Path(shutil.copytree(begun, self.folder / f"step-{step}"))
            was_killed = _fork(lambda: self._download(data_dir, simulator, step))  # noqa: B023
            self._check_archive(f"step {step}", data_dir, expected)
            rows = _list_rows(data_dir)
            is_right = rows.items() <= expected.items() and rows.items() <= hash_files(data_dir).items()
            self.verify(is_right, f"step {step}: files with a row are right")
            _fork(lambda: self._download(data_dir, simulator))  # noqa: B023
            is_right = hash_files(data_dir) == expected == _list_rows(data_dir)
            is_right = is_right and not find_incomplete(data_dir)
            self.verify(is_right, f"step {step}: the next start completes the archive")
            if not was_killed:
                break
        self.verify(1 < step < MAX_STEPS, f"a download has several steps, not {step}")
        self.figures.append(f"killed at each of {step - 1} steps")

    def _check_archive(self, where: str, data_dir: Path, expected: dict[str, str]) -> None:
        wrong = find_wrong(data_dir, expected)
        self.verify(not wrong, f"{where}: there is no wrong file, except {wrong}")

    def _download(self, data_dir: Path, simulator: embed.Simulator, kill_at: int = 0) -> None:
        """Download as a start does; kill this process at step `kill_at`.

        A step is before or after each call that opens, syncs or renames a file, or stores its row.
        """
        steps = iter(range(1, 1000))

        def step() -> None:
            if next(steps) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def count(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                step()
                found = real(*arguments, **options)
                step()
                return found

            return call

        for target, name in ((os, "open"), (os, "fsync"), (os, "replace"), (media_files, "mark_present")):
            setattr(target, name, count(getattr(target, name)))
        with self.open_mirror(simulator, data_dir, **DOWNLOADS) as mirror:
            download.prepare_downloads(mirror.context)
            download.download_due_files(mirror.context)
            step()

    # --- kills of the product --------------------------------------------------------------------------

    def _kill_product(self) -> None:
        rng, pause, interrupted = random.Random(self.options.seed), threading.Event(), 0
        simulator = self.start_simulator(*NO_TRAFFIC, history=self.options.cdrs)
        data_dir, expected = self.make_folder(), _hash_listed_files(simulator)
        # Each file takes a second, so that it can be interrupted.
        simulator.control("POST", "faults", {"spec": f"drip=1@{ANY_FILE}"})
        product = self.start_product(data_dir, simulator)
        for number in range(self.options.size):
            wait_for(lambda: find_incomplete(data_dir), "a download", 240)
            pause.wait(rng.uniform(0, 0.8))
            if number % 3 == 2:
                self.kill_product(product)
                product = None
            else:
                worker = kill_worker(product)
            interrupted += bool(find_incomplete(data_dir))
            self._check_archive(f"kill {number}", data_dir, expected)
            if product is None:
                product = self.start_product(data_dir, simulator)
            else:
                await_new_worker(product, worker)
            if len(hash_files(data_dir)) == len(expected):
                break
        simulator.control("DELETE", "faults")
        self.verify_soon(
            lambda: hash_files(data_dir) == expected and not find_incomplete(data_dir),
            lambda: f"all files are right in the end, except {find_wrong(data_dir, expected)}",
        )
        self.figures.append(
            f"{number + 1} kills, {interrupted} of them during a download, {len(expected)} files"
        )


class DownloadOrder(Trial):
    """Downloads sync the file before renaming it, the folder before its row.

    Checked: the system calls of `sync monitors` for one recording, by strace if it is installed.
    Detects: files that are not synced.
    """

    name = "files"
    size_option, size = "--kills", 30
    bugs, symptoms = ("skip_fsync",), ("is synced",)

    @classmethod
    def main(cls, arguments: Sequence[str]) -> int:
        if shutil.which("strace") is None:
            print("files: NOT TRIED: the order of system calls, strace is not installed")
            if "--report" in arguments:
                raise SystemExit(NOT_RUN)
            return 0
        return super().main(arguments)

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cdrs", type=int, default=8, help="calls at the platform")

    def check(self) -> None:
        simulator = self.start_simulator(*NO_TRAFFIC, history=self.options.cdrs)
        for key in _list_monitors(simulator)[1:]:
            simulator.control("DELETE", f"records/monitors/{key}")
        log, program = self.folder / "strace", seeded_bug.make_program(self.bugs if self.is_seeded else ())
        done = subprocess.run(
            [
                *("strace", "-f", "-y", "-s", "8192", "--seccomp-bpf", "-e", CALLS, "-o", str(log)),
                *(sys.executable, *program, "sync", "monitors"),
            ],
            cwd=ROOT,
            env=os.environ
            | {
                "SWITCHROOM_CONFIG": os.devnull,
                "SWITCHROOM_PLATFORM__BASE_URL": simulator.url,
                "SWITCHROOM_PLATFORM__USER_ID": simulator.user_id,
                "SWITCHROOM_PLATFORM__API_KEY": simulator.api_key,
                "SWITCHROOM_STORAGE__DATA_DIR": str(self.data_dir),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        rows = _list_rows(self.data_dir)
        self.verify(len(rows) == 1, f"one file is downloaded under strace: {done.stderr[-500:]}")
        for path, sha256 in rows.items():
            self._check_order(log.read_text(errors="replace").splitlines(), str(self.data_dir / path), sha256)

    def _check_order(self, lines: list[str], path: str, sha256: str) -> None:
        final_name, part = re.escape(path), re.escape(path) + r"\.part"
        calls = {
            "the part is created": rf'openat\(.*"[^"]*{part}", .*O_CREAT.*O_NOFOLLOW',
            "bytes are written": rf"write\(\d+<[^>]*{part}>",
            "the part is synced": rf"fsync\(\d+<[^>]*{part}>",
            "it gets its final name": rf'rename[a-z0-9]*\(.*{part}", .*{final_name}"',
            "the folder is synced": rf"fsync\(\d+<[^>]*{re.escape(str(Path(path).parent))}>",
            "the row is written": rf"write64\(\d+<[^>]*mirror\.db-wal>.*{sha256}have",
        }
        at = {
            name: [n for n, line in enumerate(lines) if re.search(call, line)] for name, call in calls.items()
        }
        for name, found in at.items():
            self.verify(bool(found), f"order of system calls: {name}")
        if all(at.values()):
            pairs = zip(at.values(), list(at.values())[1:], strict=False)
            is_ordered = all(earlier[-1] < later[0] for earlier, later in pairs)
            self.verify(is_ordered, f"each system call is after the ones before, not {at}")
        self.figures.append("system calls are in order" if not self.failures else "no order")


def _fork(work: Callable[[], None]) -> bool:
    """Run `work` in a fork. Returns whether a signal ended it."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _list_rows(data_dir: Path) -> dict[str, str]:
    """sha256 by path of the files that have a row."""
    return dict(query_rows(data_dir / "mirror.db", "SELECT path, sha256 FROM media WHERE state = 'have'"))


def _get_headers(simulator: Simulator) -> dict[str, str]:
    credentials = base64.b64encode(f"{simulator.user_id}:{simulator.api_key}".encode()).decode()
    return {"Authorization": f"Basic {credentials}"}


def _list_records(simulator: Simulator, collection: str) -> list[dict[str, Any]]:
    path = f"{simulator.base}/{collection}?limit=5000"
    records: list[dict[str, Any]] = simulator.client.json("GET", path, headers=_get_headers(simulator))[
        "data"
    ]
    return records


def _list_monitors(simulator: Simulator) -> list[int]:
    return [record["id"] for record in _list_records(simulator, "monitors")]


def _hash_listed_files(simulator: Simulator) -> dict[str, str]:
    """sha256 of all files of the platform, by path below data_dir."""
    found, headers = {}, _get_headers(simulator)
    for name, kind in FILES_OF.items():
        for record in _list_records(simulator, name):
            url = simulator.base + media_files.get_platform_file_path(kind, record["id"])
            date = record[str(PLAN[name].resource.date)]
            path = media_files.relative_path(kind, record["id"], date)
            found[path] = hash_content(simulator.client.send("GET", url, headers=headers)[1])
    return found


class Files(Trial):
    """A kill during a download leaves no wrong file in the archive.

    Disturbed: the product is killed during downloads (InterruptedDownloads); system calls are recorded
    (DownloadOrder).
    """

    name = "files"
    short = ("--kills 2", "--seed-bug")
    long = LongForm(
        promises=("P10",),
        rounds=("--kills 30",),
        minutes=8,
        remains="files that are sent wrongly, damaged or too large: `tests/platform_api/test_downloads.py`,"
        " `tests/sync/files`",
        expectation="files of the simulator, sha256; hand-written exchanges: trial `exchanges`",
    )

    @classmethod
    def main(cls, arguments: Sequence[str]) -> int:
        trials: tuple[type[Trial], ...] = (DownloadOrder, InterruptedDownloads)
        return max(trial.main(arguments) for trial in trials)
