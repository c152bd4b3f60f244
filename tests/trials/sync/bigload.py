"""The first load of a big account, by the command `sync` over HTTP, in a process of its own.

The platform is tests/trials/peer.py. On the way the command is killed (SIGKILL), and another goes on: at a
third of the calls' records, and again while the calls of old history are being put together. In the end every
record is there once, in walks that were complete, and every call is what its facts say when they are asked
directly. Measured are records a second, the highest memory of the process, when the first calls were there.

    python -m tests.trials bigload [--cdrs N]     1,000,000 CDRs and 200,000 recordings' metadata
    python -m tests.trials bigload --files [N]    the audio of 200,000 recordings, killed at a third
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from integration import factory
from integration.mirror.calls.store import CallStore
from integration.settings.model import load
from tests.support.harness import Process, wait_for
from tests.trials.sync.platform import Report
from tests.trials.tools.peer import FIFTH, recording

MOST_MEGABYTES = 200
TIMEOUT = 3600.0
SAMPLE, CHUNK = 5000, 1000
"""Legs whose calls are computed anew in the end, and how many of them in one transaction."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials bigload")
    parser.add_argument("--cdrs", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, nargs="?", const=200_000, help="download so many recordings")
    parser.add_argument("--seed-bug", action="store_true", help="lose or spoil what the trial must find")
    options = parser.parse_args(arguments)
    report = Report("bigload")
    cdrs = options.cdrs if options.files is None else options.files * FIFTH
    peer = Process([sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(cdrs)])
    try:
        port = peer.line("port ", 240)
        with tempfile.TemporaryDirectory() as folder:
            trial = _load if options.files is None else _download
            told = trial(Path(folder), port, options, report)
    finally:
        peer.stop()
    found = bool(report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


# --- records and their calls -------------------------------------------------------------------------------


def _load(folder: Path, port: str, options: argparse.Namespace, report: Report) -> str:
    begun = time.monotonic()
    what = ("cdrs", "monitors", "--no-files")
    first = _Sync(folder, port, what)
    wait_for(
        lambda: first.ended or _ask(folder, "SELECT max(leg_id) FROM _legs"), "the newest calls", TIMEOUT
    )
    today = time.monotonic() - begun
    _kill(first, lambda: _count(folder, "cdrs") >= options.cdrs // 3, "a third of the records", report)
    there, noted = (
        _count(folder, "cdrs"),
        _ask(folder, "SELECT walk_rows FROM _walks WHERE collection = 'cdrs'"),
    )
    report.check(noted == there > 0, f"it is noted how far it came: {there}, not {noted}")
    second = _Sync(folder, port, what)
    waits = max(1, options.cdrs // 2)
    _kill(
        second,
        lambda: _walked(folder, "monitors") and 0 < _count(folder, "_legs_due") < waits,
        "half of the old calls put together",
        report,
    )
    stored, left = time.monotonic() - begun, _count(folder, "_legs_due")
    third = _Sync(folder, port, what)
    third.process.popen.wait(TIMEOUT)
    seconds = time.monotonic() - begun
    report.check(third.process.popen.returncode == 0, f"it ends well:\n{third.process.output[-2000:]}")
    if options.seed_bug:
        with closing(sqlite3.connect(folder / "mirror.db")) as connection, connection:
            connection.execute("DELETE FROM cdrs WHERE id = 77")
    counts = {"cdrs": options.cdrs, "monitors": options.cdrs // FIFTH}
    for name, count in counts.items():
        _once(folder, name, count, report)
    read = third.read("cdrs")
    report.check(read <= options.cdrs // 100 + 5000, f"what was read is not read again: {read:,} read")
    _calls_are_right(folder, options.cdrs, report)
    runs = (first, second, third)
    memory = max(run.megabytes for run in runs)
    report.check(memory <= MOST_MEGABYTES, f"at most {MOST_MEGABYTES} MB, not {memory:.0f}")
    records, work = sum(counts.values()), max(0.01, sum(run.work for run in runs))
    size = (folder / "mirror.db").stat().st_size
    return (
        f"{records:,} records and their calls in {seconds:.0f} s, {records / seconds:,.0f} a second, "
        f"{records / work:,.0f} a processor second; the newest calls after {today:.1f} s; at most "
        f"{memory:.0f} MB of memory; killed at {there:,} records, and with {left:,} legs left after "
        f"{stored:.0f} s; "
        f"{size / 1e6:,.0f} MB on disk"
    )


def _once(folder: Path, name: str, count: int, report: Report) -> None:
    with closing(_open(folder)) as connection:
        found = connection.execute(f"SELECT count(*), min(id), max(id), sum(id) FROM {name}").fetchone()
    whole = tuple(found) == (count, 1, count, count * (count + 1) // 2)
    report.check(whole, f"every one of {count:,} {name} is there once, not {found[0]:,}")
    report.check(_walked(folder, name), f"the walk of {name} is complete")


def _calls_are_right(folder: Path, cdrs: int, report: Report) -> None:
    """Each leg has its call, and computing calls anew, from their facts, changes none of them."""
    report.check(_count(folder, "_legs_due") == 0, "no leg waits for its call")
    with closing(_open(folder)) as connection:
        legs = [row[0] for row in connection.execute("SELECT live_id FROM cdrs")]
        without, recordings = connection.execute(
            "SELECT count(*) FILTER (WHERE c.id IS NULL), sum(l.recordings)"
            " FROM _legs l LEFT JOIN _calls c ON c.id = l.call_id"
        ).fetchone()
        told = connection.execute("SELECT count(DISTINCT id) FROM _call_ids").fetchone()[0]
    report.check(
        _count(folder, "_legs") == told == cdrs, f"each of {cdrs:,} legs is known, and leads to a call"
    )
    report.check(without == 0, f"{without} legs belong to calls that there are")
    report.check(recordings == cdrs // FIFTH, f"each recording is counted once: {recordings:,}")
    product = factory.build(load(Path(os.devnull), _environment(folder, "9")))
    calls: CallStore = product.context.call_store
    try:
        sample = random.Random(5).sample(legs, min(SAMPLE, len(legs)))
        before = _ask(folder, "SELECT max(change_no) FROM _calls")
        for begin in range(0, len(sample), CHUNK):
            some = sample[begin : begin + CHUNK]
            product.context.mirror_db.write(lambda tx, some=some: calls.refresh(tx, some))  # type: ignore[misc]
        after = _ask(folder, "SELECT max(change_no) FROM _calls")
    finally:
        product.stop()
    report.check(before == after, f"{len(sample):,} calls computed anew are what they were")


# --- files -------------------------------------------------------------------------------------------------


def _download(folder: Path, port: str, options: argparse.Namespace, report: Report) -> str:
    begun, count = time.monotonic(), options.files
    first = _Sync(folder, port, ("monitors",))
    have = "SELECT files FROM _media_tally WHERE kind = 'recording' AND state = 'have'"
    _kill(first, lambda: (_ask(folder, have) or 0) >= count // 3, "a third of the files", report)
    there = _ask(folder, have) or 0
    second = _Sync(folder, port, ("monitors",))
    second.process.popen.wait(TIMEOUT)
    seconds = time.monotonic() - begun
    report.check(second.process.popen.returncode == 0, f"it ends well:\n{second.process.output[-2000:]}")
    if options.seed_bug:
        next((folder / "recordings").rglob("77.mp3")).write_bytes(recording(78))
    with closing(_open(folder)) as connection:
        told = connection.execute(
            "SELECT record_id, path, size, sha256 FROM media WHERE kind = 'recording' AND state = 'have'"
        ).fetchall()
    report.check({row[0] for row in told} == set(range(1, count + 1)), f"each of {count:,} files is had")
    wrong = [path for number, path, size, digest in told if not _is(folder / path, number, size, digest)]
    report.check(not wrong, f"each file is its own recording's, as the manifest says: {wrong[:3]}")
    files = {str(file.relative_to(folder)) for file in (folder / "recordings").rglob("*") if file.is_file()}
    report.check(files == {row[1] for row in told}, "no file lies beside those of the manifest")
    memory, work = max(first.megabytes, second.megabytes), max(0.01, first.work + second.work)
    report.check(memory <= MOST_MEGABYTES, f"at most {MOST_MEGABYTES} MB, not {memory:.0f}")
    return (
        f"{count:,} files in {seconds:.0f} s, {count / seconds:,.0f} a second, {count / work:,.0f} a "
        f"processor second; killed with {there:,}; at most {memory:.0f} MB of memory"
    )


def _is(file: Path, number: int, size: int, digest: str) -> bool:
    content = file.read_bytes() if file.is_file() else b""
    expected = recording(number)
    return content == expected and size == len(expected) and digest == hashlib.sha256(expected).hexdigest()


# --- processes ---------------------------------------------------------------------------------------------


def _environment(folder: Path, port: str) -> dict[str, str]:
    return {
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": f"http://127.0.0.1:{port}/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
        # Each file is a request: what a platform allows is not what is measured.
        "SWITCHROOM_SYNC__MAX_REQUESTS_PER_MINUTE": "1000000",
    }


class _Sync:
    """`switchroom sync` as a process, its highest memory (MB) and its processor time (seconds)."""

    def __init__(self, folder: Path, port: str, what: Sequence[str]) -> None:
        self.process = Process([sys.executable, "app.py", "sync", *what], _environment(folder, port))
        self.megabytes = self.work = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def ended(self) -> bool:
        return self.process.popen.poll() is not None

    def read(self, collection: str) -> int:
        """Records read, of the summary's line: in the mirror, read, new, changed, gone."""
        line = next((line for line in self.process.lines if line.startswith(collection)), "")
        return int(line.split()[2].replace(",", "")) if line else 0

    def _watch(self) -> None:
        pause = threading.Event()
        while not self.ended:
            self.megabytes = max(self.megabytes, _highest(self.process.pid))
            self.work = max(self.work, _work(self.process.pid))
            pause.wait(0.1)


def _kill(run: _Sync, when: Callable[[], object], what: str, report: Report) -> None:
    """SIGKILL, once it has come so far."""
    wait_for(lambda: run.ended or when(), what, TIMEOUT)
    report.check(not run.ended, f"there was something to kill at {what}:\n{run.process.output[-500:]}")
    run.process.kill()


def _highest(pid: int) -> float:
    """VmHWM in MB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _work(pid: int) -> float:
    """Processor time so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _open(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{folder / 'mirror.db'}?mode=ro", uri=True, timeout=10)


def _ask(folder: Path, sql: str) -> int | None:
    try:
        with closing(_open(folder)) as connection:
            row = connection.execute(sql).fetchone()
    except sqlite3.OperationalError:
        return None  # Not created yet.
    return None if row is None else row[0]


def _count(folder: Path, table: str) -> int:
    return _ask(folder, f"SELECT count(*) FROM {table}") or 0


def _walked(folder: Path, collection: str) -> bool:
    return bool(_ask(folder, f"SELECT complete_at IS NOT NULL FROM _walks WHERE collection = '{collection}'"))
