"""Trial of interrupted downloads."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.mirror.sync_state import media_files
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import ROOT, make_environment
from tests.trials.tools import seeded_bug
from tests.trials.tools.databases import query_rows
from tests.trials.tools.local_product import LocalProduct
from tests.trials.trial import Trial, get_account

DOWNLOADS = {"recordings__download": "true", "voicemail__download": "true"}
MAX_STEPS = 99
CALLS = "trace=openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2"


class Files(Trial):
    """A kill during a download leaves no wrong file; the next start completes the archive.

    Disturbed: kill -9 before and after each step of the download of one recording, one step after the other.
    Checked: no wrong file is there, stored rows match their files, and the file is right in the end. In the
    system calls of `sync monitors`, by strace, the file is synced before it gets its final name, the folder
    before the row.
    Detects: downloads that are written under their final name; files that are not synced.
    """

    name = "files"
    bugs, symptoms = ("write_final_name", "skip_fsync"), ("there is no wrong file", "the part is synced")
    promises = ("P10",)
    expects_errors = True

    def boot(self) -> None:
        if shutil.which("strace") is None:
            raise SystemExit("files requires strace: sudo apt install strace")
        self.simulator = self.embed_simulator(8)
        with self.simulator.world.lock:
            recordings = self.simulator.world.collections["monitors"].records
            for key in sorted(recordings)[:-1]:
                del recordings[key]

    def load(self) -> None:
        """Trace the system calls of a download."""
        log, program = (
            self.folder / "strace",
            seeded_bug.make_program(("skip_fsync",) if self.is_seeded else ()),
        )
        done = subprocess.run(
            [
                *("strace", "-f", "-y", "-s", "8192", "--seccomp-bpf", "-e", CALLS, "-o", str(log)),
                *(sys.executable, *program, "sync", "monitors"),
            ],
            cwd=ROOT,
            env=os.environ | make_environment(self.data_dir, *get_account(self.simulator)),
            capture_output=True,
            text=True,
            check=False,
        )
        rows = list_rows(self.data_dir)
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

    def disturb(self) -> None:
        begun = self.make_folder()
        with self.build_product(self.simulator, begun, **DOWNLOADS) as product:
            run_full_sync(product.context, PLAN["monitors"])
            expected = hash_platform_files(product)
        for path in expected:
            (begun / path).parent.mkdir(parents=True)
        for step in range(1, MAX_STEPS + 1):
            data_dir = Path(shutil.copytree(begun, self.folder / f"step-{step}"))
            was_killed = _fork(lambda: self._download(data_dir, step))  # noqa: B023
            files, rows = hash_files(data_dir), list_rows(data_dir)
            self.verify(files.items() <= expected.items(), f"step {step}: there is no wrong file: {files}")
            is_right = rows.items() <= expected.items() and rows.items() <= files.items()
            self.verify(is_right, f"step {step}: files with a row are right")
            _fork(lambda: self._download(data_dir))  # noqa: B023
            is_right = hash_files(data_dir) == expected == list_rows(data_dir)
            is_right = is_right and not list(data_dir.rglob("*.part"))
            self.verify(is_right, f"step {step}: the next start completes the archive")
            if not was_killed:
                break
        self.verify(1 < step < MAX_STEPS, f"a download has several steps, not {step}")
        self.figures.append(f"killed at each of {step - 1} steps")

    def _download(self, data_dir: Path, kill_at: int = 0) -> None:
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

        with self.build_product(self.simulator, data_dir, **DOWNLOADS) as product:
            for target, name in ((os, "open"), (os, "fsync"), (os, "replace"), (media_files, "mark_present")):
                setattr(target, name, count(getattr(target, name)))
            download.prepare_downloads(product.context)
            download.download_due_files(product.context)
            step()


def _fork(work: Callable[[], None]) -> bool:
    """Run `work` in a fork. Returns whether a signal ended it."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def hash_platform_files(product: LocalProduct) -> dict[str, str]:
    """sha256 of what the platform sends, by path below data_dir."""
    rows = product.query("SELECT kind, record_id, path FROM media")
    return {
        path: _hash(product.context.platform.get(media_files.get_platform_file_path(kind, number)).body)
        for kind, number, path in rows
    }


def hash_files(data_dir: Path) -> dict[str, str]:
    """sha256 of complete files in the archive, by path below data_dir."""
    paths = (data_dir / media_files.FOLDERS["recording"]).rglob("*")
    return {
        str(path.relative_to(data_dir)): _hash(path.read_bytes())
        for path in paths
        if path.is_file() and path.suffix != ".part"
    }


def list_rows(data_dir: Path) -> dict[str, str]:
    """sha256 by path of the files that have a row."""
    return dict(query_rows(data_dir / "mirror.db", "SELECT path, sha256 FROM media WHERE state = 'have'"))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
