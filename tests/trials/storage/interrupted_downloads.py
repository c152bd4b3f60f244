"""Downloads cut short, as part of the trial `files`.

    order    `.part`, fsync, rename, fsync of the folder, row: as strace saw it, where that is installed
    steps    kill -9 before and after each call of that order, one after the other: what is there, what heals
    kills    kill -9 of the product's worker, or of all of it, in mid-download

All are real processes.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from integration.mirror.sync_state import media_files
from integration.simulator import embed
from integration.sync.files import download
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.support.harness import ROOT, Product, Simulator, wait_for
from tests.trials.storage import files
from tests.trials.sync.platform import Report, friday_evening, open_mirror_trial, run_simulator, until

# --- order ---------------------------------------------------------------------------------------------


def order(options: argparse.Namespace, report: Report) -> str:
    """What one download asked of the system, in the order it did."""
    if shutil.which("strace") is None:
        return "the order of its calls was not looked at, strace is not installed"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "strace")
        traced = "trace=openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2"
        strace = ["strace", "-f", "-y", "-s", "8192", "--seccomp-bpf", "-e", traced, "-o", str(log)]
        trial = [sys.executable, "-m", "tests.trials", "files", "--fetch-one", str(Path(folder, "data"))]
        if options.seed_bug:
            trial.append("--seed-bug")
        done = subprocess.run([*strace, *trial], cwd=ROOT, capture_output=True, text=True, check=False)
        report.check(done.returncode == 0, f"one file is fetched under strace: {done.stderr[-500:]}")
        if done.returncode:
            return "no order"
        path, sha256 = done.stdout.split()
        lines = log.read_text(errors="replace").splitlines()
    final_name, part = re.escape(path), re.escape(path) + r"\.part"
    steps = {
        "the part is made": rf'openat\(.*"[^"]*{part}", .*O_CREAT.*O_NOFOLLOW',
        "bytes are written": rf"write\(\d+<[^>]*{part}>",
        "the part is synced": rf"fsync\(\d+<[^>]*{part}>",
        "it gets its final name": rf'rename[a-z0-9]*\(.*{part}", .*{final_name}"',
        "the folder is synced": rf"fsync\(\d+<[^>]*{re.escape(str(Path(path).parent))}>",
        "the row says so": rf"write64\(\d+<[^>]*mirror\.db-wal>.*{sha256}have",
    }
    at = {step: [n for n, line in enumerate(lines) if re.search(call, line)] for step, call in steps.items()}
    for step, found in at.items():
        report.check(bool(found), f"order: {step}")
    if all(at.values()):
        firsts, lasts = [found[0] for found in at.values()], [found[-1] for found in at.values()]
        held = all(last < first for last, first in zip(lasts, firsts[1:], strict=False))
        report.check(held, f"order: each after all of the one before, not {at}")
    return "its calls in order" if all(at.values()) else "no order"


def fetch_one(options: argparse.Namespace) -> int:
    """Under strace: one recording, its path and sha256 on standard output."""
    options.fetch_one.mkdir()
    if options.seed_bug:
        # Nothing is synced before it gets its name.
        os.fsync = lambda _: None
    with run_simulator(options) as simulator:
        files.few(simulator, monitors=1)
        with open_mirror_trial(options.fetch_one, simulator, **files.DOWNLOADS) as made:
            run_full_sync(made.parts, PLAN["monitors"])
            download.download_due_files(made.parts)
            ((path, sha256),) = files.final(options.fetch_one).items()
    print(path, sha256)
    return 0


# --- steps ---------------------------------------------------------------------------------------------


def steps(options: argparse.Namespace, report: Report) -> str:
    with run_simulator(options) as simulator, tempfile.TemporaryDirectory() as folder:
        files.few(simulator, monitors=1)
        begun = Path(folder, "begun")
        with open_mirror_trial(begun, simulator, **files.DOWNLOADS) as made:
            run_full_sync(made.parts, PLAN["monitors"])
            right = files.truth(made)
        for path in right:
            (begun / path).parent.mkdir(parents=True)
        for step in range(1, 100):
            data_dir = Path(shutil.copytree(begun, Path(folder, str(step))))
            died = _forked(lambda: _fetch(data_dir, simulator, step))  # noqa: B023
            found = files.wrong(data_dir, right)
            report.check(not found, f"step {step}: no wrong file, not {found}")
            claimed = _claimed(data_dir)
            report.check(
                claimed <= right.items() and claimed <= files.final(data_dir).items(),
                f"step {step}: what the table has is there",
            )
            _forked(lambda: _fetch(data_dir, simulator))  # noqa: B023
            whole = files.final(data_dir) == right == dict(_claimed(data_dir)) and not files.parts_left(
                data_dir
            )
            report.check(whole, f"step {step}: the next start makes it whole")
            if not died:
                break
        report.check(1 < step < 99, f"steps: {step} were seen")
    return f"killed at each of {step - 1} steps"


def _forked(work: Callable[[], None]) -> bool:
    """Whether a process of its own was killed at this work."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _fetch(data_dir: Path, simulator: embed.Simulator, step: int = 0) -> None:
    """What a start does; with `step` until just before or after one of the calls that matter."""
    calls = iter(range(1, 1000))

    def point() -> None:
        if next(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            point()
            found = real(*arguments, **options)
            point()
            return found

        return call

    for where, name in ((os, "open"), (os, "fsync"), (os, "replace"), (media_files, "mark_present")):
        setattr(where, name, watched(getattr(where, name)))
    with open_mirror_trial(data_dir, simulator, **files.DOWNLOADS) as made:
        download.prepare_downloads(made.parts)
        download.download_due_files(made.parts)
        point()


def _claimed(data_dir: Path) -> set[tuple[str, str]]:
    """Path and sha256 of what the table says is there."""
    with closing(sqlite3.connect(data_dir / "mirror.db")) as connection:
        return set(connection.execute("SELECT path, sha256 FROM media WHERE state = 'have'"))


# --- kills ---------------------------------------------------------------------------------------------


def kills(options: argparse.Namespace, report: Report) -> str:
    rng, pause, halves = random.Random(options.seed), threading.Event(), 0
    history = ("--cdrs", str(options.cdrs), "--start", str(friday_evening()))
    simulator = Simulator("--seed", str(options.seed), "--no-traffic", *history)
    try:
        with tempfile.TemporaryDirectory() as folder:
            data_dir, right = Path(folder), _listed(simulator)
            # A second for each, so that there is a middle to be killed in.
            simulator.control("POST", "faults", {"spec": f"drip=1@{files.FILE}"})
            product = _begin(simulator, data_dir)
            try:
                for number in range(options.kills):
                    wait_for(lambda: files.parts_left(data_dir), "a download under way", 240)
                    pause.wait(rng.uniform(0, 0.8))
                    killed = _kill(product, whole=number % 3 == 2)
                    halves += bool(files.parts_left(data_dir))
                    found = files.wrong(data_dir, right)
                    report.check(not found, f"kill {number}: no wrong file, not {found}")
                    if killed is None:
                        product = _begin(simulator, data_dir)
                    else:
                        _await_another(product, killed)
                    if len(files.final(data_dir)) == len(right):
                        break
                simulator.control("DELETE", "faults")
                whole = until(lambda: files.final(data_dir) == right and not files.parts_left(data_dir))
                report.check(
                    whole, f"kills: all is there and right in the end, not {files.wrong(data_dir, right)}"
                )
            finally:
                product.stop(30)
    finally:
        simulator.stop()
    return f"{number + 1} kills, {halves} of them amid a file, {len(right)} files right after"


def _begin(simulator: Simulator, data_dir: Path) -> Product:
    return Product(data_dir, base_url=simulator.url, user_id=simulator.user_id, api_key=simulator.api_key)


def _kill(product: Product, whole: bool) -> int | None:
    """SIGKILL to the worker, whose pid is returned, or to all of the product."""
    worker = product.worker
    if whole or worker is None:
        product.kill()
        return None
    os.kill(worker, signal.SIGKILL)
    return worker


def _await_another(product: Product, worker: int) -> None:
    wait_for(lambda: product.worker not in (None, worker), "a new worker", 60)
    product.ready()


def _listed(simulator: Simulator) -> dict[str, str]:
    """Path below data_dir → sha256 of every file that the platform has."""
    credentials = base64.b64encode(f"{simulator.user_id}:{simulator.api_key}".encode()).decode()
    headers, found = {"Authorization": f"Basic {credentials}"}, {}
    for name, kind in FILES_OF.items():
        records = simulator.client.json("GET", f"{simulator.base}/{name}?limit=5000", headers=headers)["data"]
        for record in records:
            asked = simulator.base + media_files.get_platform_file_path(kind, record["id"])
            date = record[str(PLAN[name].resource.date)]
            path = media_files.relative_path(kind, record["id"], date)
            found[path] = files.digest(simulator.client.ask("GET", asked, headers=headers)[1])
    return found
