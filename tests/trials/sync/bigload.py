"""Trial of the initial sync of a big account."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from integration import factory
from integration.settings.model import load
from tests.support.harness import Process, wait_for
from tests.trials.long_form import LongForm
from tests.trials.tools import seeded_bug
from tests.trials.tools.databases import query_number, query_rows
from tests.trials.tools.peer import CDRS_PER_RECORDING, make_recording
from tests.trials.tools.processes import read_peak_memory
from tests.trials.trial import Trial

MAX_MEGABYTES = 200
TIMEOUT = 3600.0
SAMPLE, CHUNK = 5000, 1000
"""Legs whose calls are recomputed in the end, and how many of them in one transaction."""


class BigLoad(Trial):
    """The initial sync of a big account continues after kills.

    Disturbed: the command `sync` is killed at a third of the CDRs, and again while calls of old history are
    assembled; with `--files` at a third of the recordings. The platform is tools/peer.py.
    Checked: each record, or file, is stored once; little is read twice; recomputed calls are unchanged; the
    process needs 200 MB at most. Prints rates and memory.
    Detects: a record that is not stored; a file with wrong content.
    """

    name = "bigload"
    size_option, size = "--cdrs", 1_000_000
    bugs = ("spoil_record_77",)
    symptoms = ("77",)
    short = ("--cdrs 12000", "--cdrs 12000 --seed-bug", "--files 600", "--files 600 --seed-bug")
    long = LongForm(
        promises=(),
        rounds=("--cdrs 200000", "--files 5000"),
        minutes=5,
        remains="1,000,000 CDRs: `bigload` without `--long`; 200,000 files: `--files`",
        expectation="by hand: numbered records of `tests/trials/tools/peer.py`",
    )

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        help_text = "number of recordings to download, by default 200,000"
        parser.add_argument("--files", type=int, nargs="?", const=200_000, help=help_text)

    def boot(self) -> None:
        files = self.options.files
        self.cdrs = self.options.size if files is None else files * CDRS_PER_RECORDING
        peer = self.start_process(sys.executable, "-m", "tests.trials.tools.peer", "--cdrs", str(self.cdrs))
        self.port = peer.line("port ", 240)
        self.mirror = self.folder / "mirror.db"
        self.runs: list[SyncProcess] = []
        self.begun = time.monotonic()

    def disturb(self) -> None:
        if self.options.files is None:
            self._kill_sync_of_records()
        else:
            self._kill_download()
        last = self.runs[-1]
        last.process.popen.wait(TIMEOUT)
        self.seconds = time.monotonic() - self.begun
        status = last.process.popen.returncode
        self.verify(status == 0, f"the last sync ends with status 0:\n{last.process.output[-2000:]}")

    def _kill_sync_of_records(self) -> None:
        collections = ("cdrs", "monitors", "--no-files")
        first = self._start(*collections)
        wait_for(
            lambda: first.has_ended or self._count("_legs", can_be_absent=True), "the newest calls", TIMEOUT
        )
        self.figures.append(f"the newest calls after {time.monotonic() - self.begun:.1f} s")
        self._kill(first, lambda: self._count("cdrs") >= self.cdrs // 3, "a third of the records")
        stored = self._count("cdrs")
        progress = query_number(self.mirror, "SELECT walk_rows FROM _walks WHERE collection = 'cdrs'")
        self.verify(progress == stored > 0, f"the progress of the sync is stored: {stored}, not {progress}")
        second = self._start(*collections)
        half = max(1, self.cdrs // 2)
        self._kill(
            second,
            lambda: self._is_complete("monitors") and 0 < self._count("_legs_due") < half,
            "half of the old calls",
        )
        self.figures.append(f"killed at {stored:,} records and with {self._count('_legs_due'):,} legs left")
        self._start(*collections)

    def _kill_download(self) -> None:
        def count_files() -> int:
            sql = "SELECT files FROM _media_tally WHERE kind = 'recording' AND state = 'have'"
            return query_number(self.mirror, sql, can_be_absent=True)

        third = self.options.files // 3
        self._kill(self._start("monitors"), lambda: count_files() >= third, "a third of the files")
        self.figures.append(f"killed at {count_files():,} files")
        self._start("monitors")

    def _start(self, *collections: str) -> SyncProcess:
        program = seeded_bug.make_program(self.bugs if self.is_seeded else ())
        environment = _make_environment(self.folder, self.port)
        run = SyncProcess([sys.executable, *program, "sync", *collections], environment)
        self.runs.append(run)
        return run

    def _kill(self, run: SyncProcess, is_due: Callable[[], object], what: str) -> None:
        """Send SIGKILL once `is_due`."""
        wait_for(lambda: run.has_ended or is_due(), what, TIMEOUT)
        self.verify(not run.has_ended, f"the sync runs at {what}:\n{run.process.output[-500:]}")
        run.process.kill()

    def check(self) -> None:
        if self.options.files is None:
            counts = {"cdrs": self.cdrs, "monitors": self.cdrs // CDRS_PER_RECORDING}
            for name, count in counts.items():
                self._check_records(name, count)
            read = self.runs[-1].get_read("cdrs")
            limit = self.cdrs // 100 + 5000
            self.verify(read <= limit, f"stored records are not read again: {read:,} read, limit {limit:,}")
            self._check_calls()
            self._add_rates(sum(counts.values()), "records")
            self.figures.append(f"{self.mirror.stat().st_size / 1e6:,.0f} MB on disk")
        else:
            self._check_files(self.options.files)
            self._add_rates(self.options.files, "files")
        memory = max(run.megabytes for run in self.runs)
        self.verify(memory <= MAX_MEGABYTES, f"memory is at most {MAX_MEGABYTES} MB, not {memory:.0f}")
        self.figures.append(f"at most {memory:.0f} MB of memory")

    def _add_rates(self, count: int, what: str) -> None:
        work = max(0.01, sum(run.processor_seconds for run in self.runs))
        self.figures.append(
            f"{count:,} {what} in {self.seconds:.0f} s, {count / self.seconds:,.0f} a second, "
            f"{count / work:,.0f} a processor second"
        )

    def _check_records(self, name: str, count: int) -> None:
        found = query_rows(self.mirror, f"SELECT count(*), min(id), max(id), sum(id) FROM {name}")[0]
        missing = [number for number in range(1, 100) if not self._count(name, f"id = {number}")]
        is_right = found == (count, 1, count, count * (count + 1) // 2)
        self.verify(is_right, f"each of {count:,} {name} is stored once, not {found}; missing: {missing}")
        self.verify(self._is_complete(name), f"the sync of {name} is complete")

    def _check_calls(self) -> None:
        """Check that each leg has its call; recompute some calls."""
        self.verify(self._count("_legs_due") == 0, "no leg waits for its call")
        legs = [row[0] for row in query_rows(self.mirror, "SELECT live_id FROM cdrs")]
        without_call, recordings = query_rows(
            self.mirror,
            "SELECT count(*) FILTER (WHERE c.id IS NULL), sum(l.recordings)"
            " FROM _legs l LEFT JOIN _calls c ON c.id = l.call_id",
        )[0]
        ids = query_number(self.mirror, "SELECT count(DISTINCT id) FROM _call_ids")
        self.verify(self._count("_legs") == ids == self.cdrs, f"each of {self.cdrs:,} legs leads to a call")
        self.verify(without_call == 0, f"every leg has a call, except {without_call}")
        expected = self.cdrs // CDRS_PER_RECORDING
        self.verify(recordings == expected, f"{expected:,} recordings are counted, not {recordings:,}")
        sample = random.Random(5).sample(legs, min(SAMPLE, len(legs)))
        before = query_number(self.mirror, "SELECT max(change_no) FROM _calls")
        product = factory.build(load(Path(os.devnull), _make_environment(self.folder, "9")))
        try:
            refresh = product.context.call_store.refresh
            for begin in range(0, len(sample), CHUNK):
                chunk = sample[begin : begin + CHUNK]
                product.context.mirror_db.write(lambda tx, chunk=chunk: refresh(tx, chunk))
            after = query_number(self.mirror, "SELECT max(change_no) FROM _calls")
        finally:
            product.stop()
        self.verify(before == after, f"{len(sample):,} recomputed calls are unchanged")

    def _check_files(self, count: int) -> None:
        rows = query_rows(
            self.mirror,
            "SELECT record_id, path, size, sha256 FROM media WHERE kind = 'recording' AND state = 'have'",
        )
        missing = set(range(1, count + 1)) ^ {row[0] for row in rows}
        self.verify(not missing, f"each of {count:,} files is downloaded, except {sorted(missing)[:3]}")
        wrong = [row[1] for row in rows if not _is_right(self.folder / row[1], row[0], row[2], row[3])]
        self.verify(not wrong, f"each file is its own recording, as its row states, except {wrong[:3]}")
        files = (file for file in (self.folder / "recordings").rglob("*") if file.is_file())
        paths = {str(file.relative_to(self.folder)) for file in files}
        self.verify(paths == {row[1] for row in rows}, "there are no files without a row")

    def _count(self, table: str, condition: str = "1", *, can_be_absent: bool = False) -> int:
        sql = f"SELECT count(*) FROM {table} WHERE {condition}"
        return query_number(self.mirror, sql, can_be_absent=can_be_absent)

    def _is_complete(self, collection: str) -> bool:
        sql = "SELECT complete_at IS NOT NULL FROM _walks WHERE collection = ?"
        return bool(query_number(self.mirror, sql, collection))


class SyncProcess:
    """`switchroom sync` as a process, with its memory and processor time."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.process = Process(list(arguments), environment)
        self.megabytes = self.processor_seconds = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self.process.popen.poll() is not None

    def get_read(self, collection: str) -> int:
        """Return the number of records read, from the printed summary.

        Its columns are: in the mirror, read, new, changed, deleted.
        """
        line = next((line for line in self.process.lines if line.startswith(collection)), "")
        return int(line.split()[2].replace(",", "")) if line else 0

    def _watch(self) -> None:
        pause, pid = threading.Event(), self.process.pid
        while not self.has_ended:
            self.megabytes = max(self.megabytes, read_peak_memory(pid))
            self.processor_seconds = max(self.processor_seconds, _read_processor_seconds(pid))
            pause.wait(0.1)


def _make_environment(folder: Path, port: str) -> dict[str, str]:
    return {
        "SWITCHROOM_CONFIG": os.devnull,
        "SWITCHROOM_PLATFORM__BASE_URL": f"http://127.0.0.1:{port}/v1.2",
        "SWITCHROOM_PLATFORM__USER_ID": "1000001",
        "SWITCHROOM_PLATFORM__API_KEY": "0" * 40,
        "SWITCHROOM_STORAGE__DATA_DIR": str(folder),
        # Each file is a request; the platform's limit is not measured here.
        "SWITCHROOM_SYNC__MAX_REQUESTS_PER_MINUTE": "1000000",
    }


def _is_right(file: Path, number: int, size: int, digest: str) -> bool:
    content = file.read_bytes() if file.is_file() else b""
    expected = make_recording(number)
    return content == expected and size == len(expected) and digest == hashlib.sha256(expected).hexdigest()


def _read_processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
