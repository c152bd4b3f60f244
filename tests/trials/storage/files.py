"""Promise P10: under its final name a file is absent or the right one, and what went wrong heals by itself.

    answers  every way to send a wrong file, of recordings, voicemail and faxes
    sizes    the record tells another size than its file has, or none while the platform still writes it
    disk     it is full in mid-download: a tmpfs where one may be mounted (ENOSPC), RLIMIT_FSIZE (EFBIG)
    midway   the order in which a download asks the disk, kill -9 at each step and at random: see midway.py
    archive  what was damaged, the budget, what comes first: see archive.py

All over real HTTP against the simulator; time is moved, but for the kills, which are of real processes.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from integration.core.errors import PlatformError, StorageFull
from integration.mirror.sync_state import media_files
from integration.platform_api import downloads as received
from integration.simulator import embed
from integration.simulator.media import audio
from integration.sync.files import disk_quota, download, file_check
from integration.sync.plan import FILES_OF, PLAN
from integration.sync.reading.full_sync import run_full_sync
from tests.trials.storage import archive
from tests.trials.storage import interrupted_downloads as midway
from tests.trials.sync.platform import MirrorTrial, Report, movable_clock, open_mirror_trial, run_simulator

WAYS = (
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
FILE = "*.*"
"""The paths of files, for faults."""

LONG = 12_000
"""Seconds of a call whose recording is larger than the databases."""

SLOW = ("hang", "drip")
SHORTEST = 0.5
"""Seconds that a download may take at least where it is slow on purpose, instead of two minutes."""

DOWNLOADS = {"SWITCHROOM_RECORDINGS__DOWNLOAD": "true", "SWITCHROOM_VOICEMAIL__DOWNLOAD": "true"}
Later = Callable[[float], None]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials files")
    parser.add_argument("--kills", type=int, default=30, help="times the worker is killed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cdrs", type=int, default=8, help="calls at the platform")
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    parser.add_argument("--fetch-one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.fetch_one:
        return midway.fetch_one(options)
    # What goes wrong here is meant to.
    logging.getLogger("integration").setLevel(logging.ERROR)
    if options.seed_bug:
        return _planted(options)
    report = Report("files")
    told = [_answers(options, report), _sizes(options, report), _disk(options, report)]
    told += [archive.archive(options, report), midway.order(options, report)]
    told += [midway.steps(options, report), midway.kills(options, report)]
    return report.end("; ".join(told))


def _planted(options: argparse.Namespace) -> int:
    """One bug after another; each must be found by the part that looks for it."""
    with_name = Path.with_name
    bugs: list[tuple[str, Any, str, Callable[..., Any], Callable[..., Any]]] = [
        ("nobody looks at what came", received, "_find_problem", lambda *_: None, _answers),
        ("no damage is seen", file_check, "find_fault", lambda *_, **__: None, archive.on_demand),
        (
            "no name is given late",
            Path,
            "with_name",
            lambda path, name: path if name.endswith(".part") else with_name(path, name),
            midway.steps,
        ),
    ]
    if shutil.which("strace"):
        # Planted in the process that strace watches.
        bugs.append(("nothing is synced", os, "fsync", os.fsync, midway.order))
    missed = 0
    for about, where, name, bug, part in bugs:
        report, real = Report(f"files, where {about}"), getattr(where, name)
        setattr(where, name, bug)
        try:
            part(options, report)
        finally:
            setattr(where, name, real)
        missed += not report.broken
    return int(missed > 0)


# --- what is there and what should be ------------------------------------------------------------------


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def truth(made: MirrorTrial) -> dict[str, str]:
    """Path below data_dir → sha256 of what the platform sends while nothing is wrong."""
    with made.mirror_db.read() as connection:
        rows = connection.execute("SELECT kind, record_id, path FROM media").fetchall()
    return {
        row[2]: digest(made.platform.get(media_files.get_platform_file_path(row[0], row[1])).body)
        for row in rows
    }


def final(data_dir: Path) -> dict[str, str]:
    """The same of what lies under final names."""
    found: dict[str, str] = {}
    for folder in {media_files.FOLDERS[kind] for kind in media_files.AUTOMATIC_KINDS}:
        for path in (data_dir / folder).rglob("*"):
            if path.is_file() and path.suffix != ".part":
                found[str(path.relative_to(data_dir))] = digest(path.read_bytes())
    return found


def wrong(data_dir: Path, right: dict[str, str]) -> list[str]:
    return [path for path, found in final(data_dir).items() if right.get(path) != found]


def parts_left(data_dir: Path) -> list[str]:
    return [path.name for path in data_dir.rglob("*.part")]


def fetch(made: MirrorTrial) -> None:
    """One run of the downloads, whatever comes of it."""
    with suppress(PlatformError, StorageFull):
        download.download_due_files(made.parts)


def heal(made: MirrorTrial, later: Later, right: dict[str, str], tries: int = 4) -> bool:
    """Whether all files are there and right, a gap or two after."""
    for _ in range(tries):
        later(media_files.RETRY_DELAYS[2] + 1)
        fetch(made)
    return final(made.settings.storage.data_dir) == right


def few(simulator: embed.Simulator, **counts: int) -> None:
    """Only so many of each kind of record with a file are left at the platform, the newest."""
    with simulator.world.lock:
        for name, count in counts.items():
            records = simulator.world.collections[name].records
            for key in sorted(records)[:-count]:
                del records[key]


@contextmanager
def walked(options: argparse.Namespace, simulator: embed.Simulator, **settings: str) -> Iterator[MirrorTrial]:
    """A mirror that knows all records and has no file."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_mirror_trial(Path(folder), simulator, **{**DOWNLOADS, **settings}) as made,
    ):
        for name in FILES_OF:
            run_full_sync(made.parts, PLAN[name])
        yield made


# --- answers -------------------------------------------------------------------------------------------


def _answers(options: argparse.Namespace, report: Report) -> str:
    files = 0
    least = received.MIN_SECONDS
    try:
        with run_simulator(options) as simulator, movable_clock() as later:
            few(simulator, monitors=3, voicemessages=2, faxes=2)
            for way in WAYS:
                slow = way.startswith(SLOW)
                received.MIN_SECONDS = SHORTEST if slow else least
                patience = {"SWITCHROOM_PLATFORM__TIMEOUT": str(SHORTEST)} if slow else {}
                with walked(options, simulator, **patience) as made:
                    files += _wrong_answers(made, way, later, report)
                if options.seed_bug and report.broken:
                    return way
    finally:
        received.MIN_SECONDS = least
    return f"{len(WAYS)} ways to send {files // len(WAYS)} files wrongly"


def _wrong_answers(made: MirrorTrial, way: str, later: Later, report: Report) -> int:
    folder, right = made.settings.storage.data_dir, truth(made)
    made.faults(f"{way}@{FILE}")
    fetch(made)
    report.check(not wrong(folder, right), f"{way}: no wrong file stands there, not {wrong(folder, right)}")
    report.check(not parts_left(folder), f"{way}: nothing half is left, not {parts_left(folder)}")
    made.faults("")
    report.check(heal(made, later, right), f"{way}: all is there after")
    return len(right)


# --- sizes ---------------------------------------------------------------------------------------------


def _sizes(options: argparse.Namespace, report: Report) -> str:
    with run_simulator(options) as simulator, movable_clock() as later:
        few(simulator, monitors=4, voicemessages=1, faxes=1)
        records = simulator.world.collections["monitors"].records
        true = {key: record["size"] for key, record in records.items()}
        for size, fault in (
            (lambda bytes: bytes + 1000, ""),
            (lambda _: 0, "wrong-file=short"),
            (lambda _: None, "wrong-file=short"),
        ):
            for key, record in records.items():
                record["size"] = size(true[key])
            with walked(options, simulator) as made:
                folder, right = made.settings.storage.data_dir, truth(made)
                made.faults(f"{fault}@/monitors/{FILE}" if fault else "")
                fetch(made)
                about = f"a record that says {next(iter(records.values()))['size']} bytes"
                if not fault:
                    report.check(
                        not wrong(folder, right), f"{about}: no such file, not {wrong(folder, right)}"
                    )
                made.faults("")
                for key, record in records.items():
                    record["size"] = true[key]
                later(5)
                run_full_sync(made.parts, PLAN["monitors"], restart=True)
                report.check(heal(made, later, right), f"{about}: right once it says the right number")
    return "sizes that are wrong, 0 and null heal with their records"


# --- disk ----------------------------------------------------------------------------------------------


def _disk(options: argparse.Namespace, report: Report) -> str:
    told = []
    with run_simulator(options) as simulator, movable_clock() as later:
        few(simulator, monitors=6, voicemessages=2, faxes=2)
        records = simulator.world.collections["monitors"].records
        records[max(records)].update(duration=LONG, size=audio.compute_size(LONG))
        for limit, about in ((_tmpfs, "ENOSPC on a tmpfs"), (_file_limit, "EFBIG by RLIMIT_FSIZE")):
            with walked(options, simulator) as made, limit(made) as lift:
                told.append(f"{about}: {_full(made, lift, later, about, report)}")
    return ", ".join(told)


def _full(
    made: MirrorTrial, lift: Callable[[], object] | None, later: Later, about: str, report: Report
) -> str:
    if lift is None:
        return "not tried, no right to mount"
    folder, right = made.settings.storage.data_dir, truth(made)
    for _ in range(3):
        fetch(made)
        report.check(not wrong(folder, right), f"{about}: no wrong file, not {wrong(folder, right)}")
        report.check(not parts_left(folder), f"{about}: what did not fit is no longer in the way")
        later(media_files.RETRY_DELAYS[1] + 1)
    missing = right.keys() - final(folder).keys()
    report.check(bool(missing), f"{about}: something did not fit")
    lift()
    report.check(heal(made, later, right), f"{about}: all is there once there is room")
    return f"{len(missing)} of {len(right)} files did not fit"


@contextmanager
def _tmpfs(made: MirrorTrial) -> Iterator[Callable[[], object] | None]:
    """The recordings' own disk of 128 KiB; None where we may not mount one."""
    folder = made.settings.storage.data_dir / "recordings"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "switchroom-trial", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    # Room is made sure of before each file; here somebody else takes it meanwhile.
    left, disk_quota.MIN_FREE_BYTES = disk_quota.MIN_FREE_BYTES, -(10**15)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
    finally:
        disk_quota.MIN_FREE_BYTES = left
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _file_limit(made: MirrorTrial) -> Iterator[Callable[[], object] | None]:
    """No file of this process grows beyond 8 MiB: a recording would, its databases would not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 2**20, hard))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
