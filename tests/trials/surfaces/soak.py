"""Promise P28: hours of work, and trouble every few minutes; memory, handles, threads stay what they were.

Webhooks come all the time, calls go on at the platform, pages are read. Every few minutes the platform fails,
each time in another way, somebody else locks the databases, senders break off in the middle of a body, live
pages are left without a word. When all is well again, what the product holds is noted. In the end the last
third of the notes is compared with the first, memory by its slope; and every event acknowledged is there,
once, and applied, and so is every CDR of the platform.

    python -m tests.trials soak [--hours N] [--rate N] [--fault-minutes N]     8 h, 20 events a second, 10 min
    python -m tests.trials soak --short     one trouble after the other; neither memory nor CDRs are judged
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from integration.sqlite.wal import SIZE_LIMIT_BYTES as WAL_LIMIT
from tests.support.harness import Product, Simulator, wait_for
from tests.trials.surfaces.slow import Crowd
from tests.trials.sync.platform import Report, until
from tests.trials.tools.traffic import (
    DATABASES,
    PLANTED,
    Readers,
    Senders,
    Visitor,
    ask,
    damaged,
    furnish,
    look,
    lost,
    pages,
    stored,
)
from tests.trials.webhooks.crash import unapplied

SLOPE, HOURS, NOISE = 1.0, 4.0, 25.0
"""MB of memory that may be added in an hour, told by so many hours. In fewer the databases' caches fill, and
nothing is judged but whether more MB are added in all."""
WAYS = (
    "status=503",
    "html",
    "malformed=json",
    "malformed=headers",
    "truncate",
    "hang=3",
    "status=429/5",
    "expire-token:0.3",
    "status=500:0.3",
    "slow=2",
    "short-page:0.3,double-row:0.3",
    "webhook-drop:0.5,webhook-duplicate:0.5,webhook-reorder:0.5",
)
"""How the platform fails, by turns."""
LOCKED = 1.0
"""Seconds that somebody else holds each database."""
GONE = 20
"""Senders, and live pages, that go without a word each time."""
CYCLES, FAILURES = 8, 3
"""Of the short form: troubles, and answers that fail in each."""
SENDERS = 4
PAGE = 1000
"""Records of a request of our own to the platform."""
RESTED = 600.0
"""Seconds after which every collection that failed has been asked for again: none rests for so long."""
POOL = "tokio-rt-worker"
"""What the threads of the server's pool are called."""


@dataclass(frozen=True)
class Note:
    """What supervisor and worker hold: megabytes of memory of their own, handles by kind, threads; live
    streams; and the longest write-ahead log in bytes. `at`: seconds (time.monotonic). The server's pool of
    threads is left out: it grows to what was ever asked at once, and shrinks when less is asked for long."""

    at: float
    memory: float
    handles: Counter[str]
    threads: int
    streams: int
    log: int


@dataclass(frozen=True)
class Scene:
    """The product at work."""

    simulator: Simulator
    product: Product
    visitor: Visitor
    senders: Senders
    readers: Readers

    @property
    def folder(self) -> Path:
        return self.product.data_dir


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials soak")
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--rate", type=float, default=20.0, help="events a second")
    parser.add_argument("--fault-minutes", type=float, default=10.0, help="from one trouble to the next")
    parser.add_argument(
        "--short", action="store_true", help="troubles without a rest; neither memory nor CDRs are judged"
    )
    parser.add_argument("--seed-bug", action="store_true", help="leave handles, threads and memory behind")
    options = parser.parse_args(arguments)
    report = Report("soak")
    simulator = Simulator("--seed", "5", "--cdrs", "500", "--speed", "4")
    try:
        with tempfile.TemporaryDirectory(prefix="switchroom-soak-") as folder:
            told = _try(Path(folder) / "data", simulator, options, report)
    finally:
        simulator.stop()
    wanted = ("handles", "threads") if options.short else ("handles", "threads", "memory")
    found = all(any(word in promise for promise in report.broken) for word in wanted)
    return report.end(told) if not options.seed_bug else int(not found)


def _try(folder: Path, simulator: Simulator, options: argparse.Namespace, report: Report) -> str:
    visitor = furnish(folder)
    product = Product(
        folder,
        base_url=simulator.url,
        user_id=simulator.user_id,
        api_key=simulator.api_key,
        program=(*PLANTED, "leaky,hoarding") if options.seed_bug else ("app.py",),
        sync__recent_interval="2",
        sync__live_interval="2",
        sync__max_requests_per_minute="6000",
    )
    try:
        walked = "SELECT count(*) FROM _walks WHERE collection = 'cdrs' AND complete_at > ''"
        wait_for(lambda: ask(folder / "mirror.db", walked), "a first walk", 240)
        simulator.control("POST", "webhook", {"url": f"{product.url}{product.webhook_path}"})
        # The platform's calls are none of theirs.
        senders = Senders(
            product.port, product.webhook_path, count=SENDERS, rest=SENDERS / options.rate, first=1
        )
        readers = Readers(product.port, pages(visitor), rest=1.0)
        scene = Scene(simulator, product, visitor, senders, readers)
        _crowd(scene)
        told = (_hurry if options.short else _last)(scene, options, report)
        senders.stop()
        readers.stop()
        _judge(scene, report)
        if not options.short:
            _compare(scene, report)
    finally:
        status = product.stop(30)
    report.check(status == 0, f"it stops well, not with {status}")
    report.check(not (found := damaged(folder)), f"the databases are whole, not {found}")
    return f"{told}; {len(senders.answers):,} webhooks, {len(readers.answers):,} pages"


# --- hours ---------------------------------------------------------------------------------------------


def _last(scene: Scene, options: argparse.Namespace, report: Report) -> str:
    cycle, begun = options.fault_minutes * 60, time.monotonic()
    pause, notes = threading.Event(), list[Note]()
    while time.monotonic() < begun + options.hours * 3600 or len(notes) < 4:
        due = begun + len(notes) * cycle
        with _trouble(scene, WAYS[len(notes) % len(WAYS)]):
            pause.wait(cycle / 3)
        pause.wait(max(0.0, due + cycle - time.monotonic()))
        notes.append(_noted(scene.product))
        print(f"soak: {_shown(notes[-1], begun)}", flush=True)
    # What is read and made for the first time stays; that comes to an end within an hour.
    settled = [note for note in notes if note.at - begun >= min(3600, options.hours * 1200)]
    slope = _slope(settled)
    hours = (settled[-1].at - settled[0].at) / 3600
    bound = SLOPE if hours > HOURS else NOISE / hours
    report.check(slope < bound, f"memory grows by less than {bound:.1f} MB an hour, not by {slope:.1f} MB")
    for name, values in (
        ("handles", [note.handles.total() for note in settled]),
        ("threads", [note.threads for note in settled]),
    ):
        third = max(1, len(values) // 3)
        more = statistics.median(values[-third:]) - statistics.median(values[:third])
        report.check(more <= max(4, third), f"{name} are what they were, not {more:.0f} more: {values}")
    report.check(notes[-1].streams == 0, f"streams that nobody reads end, {notes[-1].streams} do not")
    longest = max(note.log for note in notes)
    report.check(longest <= WAL_LIMIT, f"no log is longer than 64 MiB, not {longest / 2**20:.0f}")
    return (
        f"{len(notes)} troubles, memory {slope:+.2f} MB an hour, judged by {bound:.1f}; "
        f"first {_shown(notes[0], begun)}, last {_shown(notes[-1], begun)}"
    )


def _slope(notes: Sequence[Note]) -> float:
    """Megabytes an hour."""
    return 3600 * statistics.linear_regression([n.at for n in notes], [n.memory for n in notes]).slope


# --- seconds -------------------------------------------------------------------------------------------


def _hurry(scene: Scene, options: argparse.Namespace, report: Report) -> str:
    _one_short(scene)
    until(lambda: _streams(scene.product) == 0, 60)
    before = _noted(scene.product)
    for _ in range(CYCLES):
        _one_short(scene)
    after = before

    def back(values: Callable[[Note], int]) -> bool:
        nonlocal after
        after = _noted(scene.product)
        return values(after) <= values(before) + CYCLES // 2

    patience = 2 if options.seed_bug else 60
    kept = until(lambda: back(lambda note: note.handles.total()), patience)
    more = after.handles - before.handles
    report.check(kept, f"handles are what they were, not {more.total()} more: {more.most_common(5)}")
    kept = until(lambda: back(lambda note: note.threads), patience)
    report.check(kept, f"threads are what they were, {before.threads}, not {after.threads}")
    ended = until(lambda: _streams(scene.product) == 0, 60)
    report.check(ended, f"streams that nobody reads end, {after.streams} do not")
    return f"{CYCLES} troubles: {_shown(before, before.at)}, then {_shown(after, before.at)}"


def _one_short(scene: Scene) -> None:
    with _trouble(scene, "status=500:0.3,truncate:0.2"):
        wait_for(lambda: _failures(scene) >= FAILURES, "answers that fail", RESTED)


def _failures(scene: Scene) -> int:
    return sum(int(fault["happened"]) for fault in scene.simulator.control("GET", "faults")["data"])


# --- parts ---------------------------------------------------------------------------------------------


@contextmanager
def _trouble(scene: Scene, way: str) -> Iterator[None]:
    """While it lasts the platform fails in this `way`; everything else that goes wrong has begun before, and
    those who leave without a word do so at its end."""
    scene.simulator.control("POST", "faults", {"spec": way})
    host = f"HTTP/1.1\r\nHost: 127.0.0.1:{scene.product.port}\r\n"
    cookie = scene.visitor.dashboard["Cookie"]
    leaving = [
        f'POST {scene.product.webhook_path} {host}Content-Length: 500\r\n\r\n{{"id":'.encode(),
        f"GET /live/stream {host}Cookie: {cookie}\r\n\r\n".encode(),
    ]
    crowd = Crowd(scene.product.port, leaving, 2 * GONE, drip=False)
    try:
        with ExitStack() as held:
            for name in DATABASES:
                outsider = held.enter_context(
                    closing(sqlite3.connect(scene.folder / name, isolation_level=None, timeout=30))
                )
                outsider.execute("BEGIN IMMEDIATE")
            threading.Event().wait(LOCKED)
        yield
    finally:
        crowd.close()
        scene.simulator.control("DELETE", "faults")


def _crowd(scene: Scene) -> None:
    """More readers at once than there will be: what is made for each is kept for the next."""
    crowd = Readers(scene.product.port, pages(scene.visitor) * 12, rest=0.0)
    until(lambda: len(crowd.answers) > 60, 60)
    crowd.stop()


def _noted(product: Product) -> Note:
    pids = [product.pid, *([product.worker] if product.worker else [])]
    return Note(
        time.monotonic(),
        sum(map(_memory, pids)) / 1024,
        sum(map(_handles, pids), Counter()),
        sum(map(_threads, pids)),
        _streams(product),
        max(_size(product.data_dir / f"{name}-wal") for name in DATABASES),
    )


def _memory(pid: int) -> int:
    """Kilobytes of its own: pages of mapped files are the system's to take back."""
    (line,) = re.findall(r"^RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(line)


def _threads(pid: int) -> int:
    found = 0
    for task in os.scandir(f"/proc/{pid}/task"):
        with suppress(OSError):  # It has ended meanwhile.
            found += Path(task.path, "comm").read_text().strip() != POOL
    return found


def _streams(product: Product) -> int:
    text = product.client.ask("GET", "/metrics")[1].decode()
    return int(float(re.findall(r"^switchroom_live_streams (\S+)", text, re.M)[0]))


def _handles(pid: int) -> Counter[str]:
    found = Counter[str]()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            found[re.sub(r"\d+", "", os.readlink(entry.path))] += 1
        except FileNotFoundError:
            continue  # Closed meanwhile.
    return found


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _shown(note: Note, begun: float) -> str:
    return (
        f"{(note.at - begun) / 60:.1f} min: {note.memory:.1f} MB, {note.handles.total()} handles, "
        f"{note.threads} threads, {note.streams} streams, a log of {note.log / 2**20:.1f} MiB"
    )


def _judge(scene: Scene, report: Report) -> None:
    """What was sent is there, and what was asked for was answered."""
    told = scene.senders.statuses
    report.check(set(told) <= {200, 503}, f"every webhook gets 200 or 503, not {dict(told)}")
    report.check(told[200] > told.total() / 2, f"most webhooks get 200, not {dict(told)}")
    read = scene.readers.statuses
    report.check(set(read) == {200}, f"every page is read, not {dict(read)}")
    report.check(until(lambda: not unapplied(scene.folder)), "every event is applied in the end")
    missing = lost(scene.folder, scene.senders.acknowledged)
    report.check(not missing, f"no event is lost, {len(missing)} are, such as {missing[:1]}")
    twice = [identifier for identifier, count in stored(scene.folder).items() if count > 1]
    report.check(not twice, f"no event is stored twice, {len(twice)} are, such as {twice[:1]}")


def _compare(scene: Scene, report: Report) -> None:
    """The mirror has what the platform has, once no collection that failed rests any longer."""
    listed = _listed(scene.simulator)
    here = until(lambda: listed <= _mirrored(scene.folder), RESTED)
    missing = listed - _mirrored(scene.folder)
    report.check(here, f"all of {len(listed)} CDRs of the platform are here, {len(missing)} are missing")


def _listed(simulator: Simulator) -> set[int]:
    """The CDRs that the platform lists; more come meanwhile."""
    found: set[int] = set()
    for page in count(1):
        path = f"{simulator.base}/cdrs?sort=id&dir=ASC&limit={PAGE}&page={page}"
        rows = simulator.client.json("GET", path, headers={"X-Auth-Token": simulator.api_key})["data"]
        found |= {row["id"] for row in rows}
        if len(rows) < PAGE:
            break
    return found


def _mirrored(folder: Path) -> set[int]:
    with closing(look(folder / "mirror.db")) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM cdrs WHERE _missing_since IS NULL")}
