"""The archive, as part of the trial `files`: what was damaged is fetched again, and nothing takes too much.

    damage       flipped, cut, removed, emptied, led elsewhere: found by the month's reading, and by
                 `verify --media`, and right again
    disk         all are missing at once, their disk is not mounted: told, nothing is fetched or given up
    budget       recordings.max_gb is kept to, says so, and the newest are what fits
    priorities   the newest first, a new one before the old; few at a time; people are not kept waiting
    limits       bytes and seconds of one download

All over real HTTP against the simulator; time is moved.
"""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from integration.core.commands import Progress
from integration.core.errors import PlatformError, StorageFull
from integration.mirror.sync_state import media_files, scrub_log
from integration.platform_api.budget import INTERACTIVE
from integration.sync.files import download as recordings
from integration.sync.files import scrub
from integration.sync.plan import PLAN
from integration.sync.reading.incremental_sync import run_incremental_sync
from tests.support.applications.scheduled_jobs import ScheduledJobs
from tests.trials.storage import files
from tests.trials.sync.platform import MirrorTrial, Report, movable_clock, run_simulator, until

MONTH = (scrub.SCRUB_INTERVAL_DAYS + 1) * 86400.0


def archive(options: argparse.Namespace, report: Report) -> str:
    with run_simulator(options) as simulator:
        files.few(simulator, monitors=60, voicemessages=2, faxes=2)
        with movable_clock() as later:
            with files.walked(options, simulator) as made:
                damaged = _within_a_month(made, later, report)
            with files.walked(options, simulator) as made:
                _disk_away(made, later, report)
            with files.walked(options, simulator, SWITCHROOM_RECORDINGS__MAX_GB="0.001") as made:
                fitting = _budget(made, report)
            with files.walked(options, simulator) as made:
                at_once = _priorities(made, report)
            files.few(simulator, monitors=3)
            with files.walked(options, simulator) as made:
                _limits(made, later, report)
    damaged += on_demand(options, report)
    return f"{damaged} damaged files healed, {fitting} fit a budget, {at_once} at a time"


# --- damage --------------------------------------------------------------------------------------------


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _others(path: Path) -> None:
    for other in sorted(path.parent.iterdir())[:5]:
        other.unlink()


def _elsewhere(path: Path) -> None:
    there = path.with_name("elsewhere")
    path.rename(there)
    path.symlink_to(there)


HARM: tuple[Callable[[Path], Any], ...] = (
    _flip,
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(b""),
    Path.unlink,
    _elsewhere,
    _others,
)


def _harm(made: MirrorTrial) -> int:
    """Harm a file of each kind in each way there are files for. Returns how many are not what they were."""
    folder = made.settings.storage.data_dir
    before = files.final(folder)
    with made.mirror_db.read() as connection:
        rows = connection.execute(
            "SELECT path FROM media "
            "ORDER BY row_number() OVER (PARTITION BY kind ORDER BY record_id DESC), kind"
        ).fetchall()
    for number, harm in enumerate(HARM * 2):
        path = folder / rows[number][0]
        if path.exists():
            harm(path)
    after = files.final(folder)
    return sum(1 for path, was in before.items() if after.get(path) != was or (folder / path).is_symlink())


def _within_a_month(made: MirrorTrial, later: Callable[[float], None], report: Report) -> int:
    folder, right = made.settings.storage.data_dir, files.truth(made)
    scheduled = ScheduledJobs(made.settings, made.mirror_db, made.platform, made.calls, made.health)
    scheduled.start()
    try:
        report.check(until(lambda: files.final(folder) == right), "damage: all is fetched at first")
        harmed = _harm(made)
        later(MONTH)
        whole = until(lambda: _whole(folder, right))
        report.check(whole, f"damage: {harmed} files are right again by themselves within a month")
    finally:
        scheduled.stop()
    with made.mirror_db.read() as connection:
        told = scrub_log.get_archive_state(connection, 100).damaged_files
    report.check(len(told) == harmed, f"damage: people are told of {harmed} files, not {len(told)}")
    return harmed


def _whole(folder: Path, right: dict[str, str]) -> bool:
    found = files.final(folder)
    return right.items() <= found.items() and not any((folder / path).is_symlink() for path in right)


def on_demand(options: argparse.Namespace, report: Report) -> int:
    """As `verify --media` does."""
    with run_simulator(options) as simulator:
        files.few(simulator, monitors=20, voicemessages=2, faxes=2)
        with files.walked(options, simulator) as made:
            right = files.truth(made)
            recordings.download_due_files(made.parts)
            harmed = _harm(made)
            progress = Progress(lambda _facts: None, lambda: True)
            damaged = scrub.verify_archive(made.parts, {}, progress)["damaged"]
            healed = sum(bool(one["healed"]) for one in damaged)
            told = f"verify --media: {harmed} are healed, not {healed} of {len(damaged)}"
            report.check(healed == harmed == len(damaged), told)
            whole = _whole(made.settings.storage.data_dir, right)
            report.check(whole, "verify --media: all is right again")
    return harmed


def _disk_away(made: MirrorTrial, later: Callable[[float], None], report: Report) -> None:
    folder, right = made.settings.storage.data_dir, files.truth(made)
    recordings.download_due_files(made.parts)
    later(MONTH)
    (folder / "recordings").rename(folder / "not mounted")
    made.simulator.context.request_log.clear()
    for _ in range(2):
        scrub.scrub_due_files(made.parts)
        recordings.download_due_files(made.parts)
        later(600)
    asked = _asked(made)
    report.check(not asked, f"disk: nothing is fetched while it is away, not {len(asked)} files")
    told = str(made.health.report()["checks"].get(scrub.HEALTH_CHECK, {}).get("error"))
    report.check("is the archive's disk there?" in told, f"disk: people are told, not {told}")
    (folder / "not mounted").rename(folder / "recordings")
    scrub.scrub_due_files(made.parts)
    report.check(
        scrub.HEALTH_CHECK not in made.health.report()["checks"], "disk: and no longer once it is back"
    )
    with made.mirror_db.read() as connection:
        states = {row[0] for row in connection.execute("SELECT state FROM media")}
    report.check(
        files.final(folder) == right and states == {"have"}, f"disk: then all is there, not {states}"
    )


# --- what it takes -------------------------------------------------------------------------------------


def _budget(made: MirrorTrial, report: Report) -> int:
    said = ""
    try:
        recordings.download_due_files(made.parts)
    except StorageFull as error:
        said = str(error)
    report.check("recordings.max_gb" in said, f"budget: it says what to raise, not {said!r}")
    with made.mirror_db.read() as connection:
        stored = media_files.count_stored_bytes(connection)
        states = [
            row[0]
            for row in connection.execute(
                "SELECT state FROM media WHERE kind = 'recording' ORDER BY record_id DESC"
            )
        ]
    report.check(stored <= 10**6, f"budget: {stored:,} of 1,000,000 bytes are taken")
    had = states.count("have")
    # Several are under way when it is reached, and one of them may be smaller than the one that did not fit.
    newest = states[: had - recordings.MAX_PARALLEL_DOWNLOADS]
    report.check(0 < had < len(states), f"budget: some fit and some don't, not {had} of {len(states)}")
    report.check(set(newest) <= {"have"}, f"budget: what fits are the newest, not {states}")
    return had


def _priorities(made: MirrorTrial, report: Report) -> int:
    made.simulator.context.request_log.clear()
    with _watched(made) as peak:
        # Those that are asked for meanwhile: three in two seconds.
        made.faults(f"slow=2@{files.FILE}")
        fetching = threading.Thread(target=recordings.download_due_files, args=(made.parts,))
        fetching.start()
        asking = until(lambda: _asked(made))
        # It has to wait for none of the sixty.
        made.platform.get("/ping", priority=INTERACTIVE)
        before = len(_asked(made))
        new = _recorded(made)
        run_incremental_sync(made.parts, PLAN["monitors"])
        known = len(_asked(made))
        made.faults("")
        fetching.join(240)
    began = _asked(made)
    report.check(asking and before < 30, f"priorities: a request of people's waits for {before} files")
    late = began.index(new) - known if new in began else len(began)
    report.check(late <= recordings.BATCH_SIZE, f"priorities: a new recording waits for {late} old ones")
    old = [number for number in began if number != new]
    # Those that are asked for at once come in any order, and a thread may be slow.
    places = {number: place for place, number in enumerate(sorted(old, reverse=True))}
    falls = all(abs(place - places[number]) < 10 for place, number in enumerate(old))
    report.check(falls, f"priorities: the newest come first, not {old}")
    report.check(1 < peak[0] <= recordings.MAX_PARALLEL_DOWNLOADS, f"priorities: {peak[0]} downloads at once")
    return peak[0]


def _asked(made: MirrorTrial) -> list[int]:
    """The recordings whose files were asked for, in order."""
    paths = [entry["path"] for entry in list(made.simulator.context.request_log)]
    return [int(found[1]) for path in paths if (found := re.fullmatch(r"/monitors/(\d+)\.mp3", path))]


def _recorded(made: MirrorTrial) -> int:
    """One more recording at the platform."""
    monitors = made.simulator.world.collections["monitors"]
    with made.simulator.world.lock:
        record = {**monitors.records[max(monitors.records)], "id": made.simulator.world.new_id("monitors")}
        monitors.add(record)
    return int(record["id"])


@contextmanager
def _watched(made: MirrorTrial) -> Iterator[list[int]]:
    """The most downloads that were under way at once, as the one entry of a list."""
    real, lock, peak, now = made.platform.download, threading.Lock(), [0], 0

    def download(*arguments: Any, **options: Any) -> Any:
        nonlocal now
        with lock:
            now += 1
            peak[0] = max(peak[0], now)
        try:
            return real(*arguments, **options)
        finally:
            with lock:
                now -= 1

    made.platform.download = download  # type: ignore[method-assign]
    try:
        yield peak
    finally:
        made.platform.download = real  # type: ignore[method-assign]


def _limits(made: MirrorTrial, later: Callable[[float], None], report: Report) -> None:
    """A file without end, as far as anybody can tell."""
    folder, right = made.settings.storage.data_dir, files.truth(made)
    real = recordings._get_expected_content
    recordings._get_expected_content = lambda file: replace(real(file), limit=500)
    try:
        for _ in range(2):
            with suppress(PlatformError, StorageFull):
                recordings.download_due_files(made.parts)
        there = files.final(folder)
        report.check(not there and not files.parts_left(folder), f"limits: {len(there)} files are too large")
    finally:
        recordings._get_expected_content = real
    report.check(files.heal(made, later, right), "limits: all is there once they are less strict")
