"""The first load of a big account, by the command `sync` over HTTP, in a process of its own.

The platform is tests/trials/peer.py. Measured are records a second, the highest memory of the process, when
the first calls of today were there; on the way the command is interrupted, and another goes on. In the end
every record is there once, in walks that were complete.

    python -m tests.trials bigload [--cdrs N]     1,000,000 CDRs and 200,000 recordings' metadata
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from tests.harness import Process, wait_for
from tests.trials.peer import FIFTH
from tests.trials.platform import Report

COLLECTIONS = ("cdrs", "monitors")
MOST_MEGABYTES = 400
TIMEOUT = 3600.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials bigload")
    parser.add_argument("--cdrs", type=int, default=1_000_000)
    parser.add_argument("--seed-bug", action="store_true", help="lose a record that the trial must find")
    options = parser.parse_args(arguments)
    report = Report("bigload")
    peer = Process([sys.executable, "-m", "tests.trials.peer", "--cdrs", str(options.cdrs)])
    try:
        port = peer.line("port ", 60)
        with tempfile.TemporaryDirectory() as folder:
            told = _load(Path(folder), port, options, report)
    finally:
        peer.stop()
    found = bool(report.broken)
    return report.end(told) if not options.seed_bug else int(not found)


def _load(folder: Path, port: str, options: argparse.Namespace, report: Report) -> str:
    begun = time.monotonic()
    first = _Sync(folder, port)
    wait_for(lambda: first.ended or _newest(folder) == options.cdrs, "the newest call", 60)
    today = time.monotonic() - begun
    half = options.cdrs // 3
    wait_for(lambda: first.ended or _count(folder, "cdrs") >= half, "a third of the calls", TIMEOUT)
    report.check(not first.ended, "there was something to interrupt")
    first.process.popen.terminate()
    first.process.popen.wait(30)
    there, noted = _count(folder, "cdrs"), _walked(folder)
    report.check(noted is not None and 0 < noted <= there, f"it is noted how far it came, not {noted}")
    second = _Sync(folder, port)
    second.process.popen.wait(TIMEOUT)
    seconds = time.monotonic() - begun
    report.check(
        second.process.popen.returncode == 0, f"the command ends well:\n{second.process.output[-2000:]}"
    )
    if options.seed_bug:
        with closing(sqlite3.connect(folder / "mirror.db")) as connection, connection:
            connection.execute("DELETE FROM cdrs WHERE id = 77")
    counts = {"cdrs": options.cdrs, "monitors": options.cdrs // FIFTH}
    for name, count in counts.items():
        with closing(_open(folder)) as connection:
            rows, lowest, highest, total = connection.execute(
                f"SELECT count(*), min(id), max(id), sum(id) FROM {name}"
            ).fetchone()
            complete = connection.execute(
                "SELECT complete_at FROM _walks WHERE collection = ?", (name,)
            ).fetchone()[0]
        whole = (rows, lowest, highest, total) == (count, 1, count, count * (count + 1) // 2)
        report.check(whole, f"every one of {count:,} {name} is there once, not {rows:,}")
        report.check(bool(complete), f"the walk of {name} is complete")
    read = second.read("cdrs")
    report.check(read <= options.cdrs - (noted or 0), f"what was read is not read again: {read:,} read")
    memory = max(first.megabytes, second.megabytes)
    report.check(memory <= MOST_MEGABYTES, f"at most {MOST_MEGABYTES} MB, not {memory:.0f}")
    records, work = sum(counts.values()), max(0.01, first.work + second.work)
    size = (folder / "mirror.db").stat().st_size
    return (
        f"{records:,} records in {seconds:.0f} s, {records / seconds:,.0f} a second, {records / work:,.0f} a "
        f"processor second; today there after {today:.1f} s; at most {memory:.0f} MB of memory; "
        f"interrupted at {there:,}, goes on from {noted:,}; {size / 1e6:,.0f} MB on disk"
    )


class _Sync:
    """`switchroom sync` as a process, its highest memory (MB) and its processor time (seconds)."""

    def __init__(self, folder: Path, port: str) -> None:
        environment = {
            "SWITCHROOM_CONFIG": os.devnull,
            "SWITCHROOM_PLATFORM__BASE_URL": f"http://127.0.0.1:{port}/v1.2",
            "SWITCHROOM_PLATFORM__USER_ID": "1000001",
            "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
            "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
        }
        self.process = Process([sys.executable, "app.py", "sync", *COLLECTIONS, "--no-files"], environment)
        self.megabytes = self.work = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def ended(self) -> bool:
        return self.process.popen.poll() is not None

    def read(self, collection: str) -> int:
        """Records read, of the summary's line: in the mirror, read, new, changed, gone."""
        line = next(line for line in self.process.lines if line.startswith(collection))
        return int(line.split()[2].replace(",", ""))

    def _watch(self) -> None:
        pause = threading.Event()
        while not self.ended:
            self.megabytes = max(self.megabytes, _highest(self.process.pid))
            self.work = max(self.work, _work(self.process.pid))
            pause.wait(0.1)


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


def _newest(folder: Path) -> int | None:
    return _ask(folder, "SELECT max(id) FROM cdrs")


def _count(folder: Path, table: str) -> int:
    return _ask(folder, f"SELECT count(*) FROM {table}") or 0


def _walked(folder: Path) -> int | None:
    return _ask(folder, "SELECT walk_rows FROM _walks WHERE collection = 'cdrs'")
