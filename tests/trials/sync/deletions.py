"""Promise P13: what was deleted at the platform is marked, and no mistake of the platform's loses anything.

    mistakes  empty, short, cut and refused answers, walk after walk: nothing is missing, and nothing after
    deleted   rounds of true deletions among mistakes: exactly these are marked, history and its files stay
    ageing    the old end of a history goes day by day: no alarm; half of it in a day: one
    brake     too many at once are held and told, after a restart too; accepted, undone, never half believed
    people    what they see of it: see people.py

All over real HTTP against the simulator; all but the last move time.
"""

from __future__ import annotations

import argparse
import copy
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from integration.core import clock
from integration.core.errors import PlatformError
from integration.mirror.sync_state import collection_state
from integration.platform_api import retry
from integration.simulator.records.people import Person
from integration.simulator.records.store import Collection
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import deletions, full_sync
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import store_failure
from tests.trials.storage.files import few, final
from tests.trials.sync import deletion_pages as people
from tests.trials.sync.platform import MirrorTrial, Report, movable_clock, open_simulated_trial

NAMES = ("cdrs", "monitors", "contacts", "faxes", "ddis")
"""History and settings, with and without paths of their own, with and without files."""

FAULTS = (
    "empty@*/{0}",
    "empty@/{0}",
    "status=403@/{0}",
    "status=404@/{0}",
    "status=500@/{0}",
    "truncate@*/{0}",
    "html@/{0}",
    "malformed=json@*/{0}",
    "double-row@*/{0}",
    "short-page@*/{0}",
    "short-list@*/{0}",
)
DAY = 86_400.0
Later = Callable[[float], None]
Key = Any


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials deletions")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of true deletions among mistakes")
    parser.add_argument("--cdrs", type=int, default=60, help="calls at the platform")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seed-bug", action="store_true", help="plant a bug that the trial must find")
    options = parser.parse_args(arguments)
    # What goes wrong here is meant to.
    logging.getLogger("integration").setLevel(logging.ERROR)
    report = Report("deletions")
    brake, gap, limit = deletions.DELETION_LIMIT, retry.GAPS, full_sync.page_limit
    # Nobody waits, and everything has several pages.
    retry.GAPS, full_sync.page_limit = (0.002,), lambda _failures: 31
    if options.seed_bug:
        # Whatever a walk misses is believed, however much it is.
        deletions.DELETION_LIMIT = 10**9
    try:
        told = [_brake(options, report)]
        if options.seed_bug:
            return int(not report.broken)
        told += [_mistakes(options, report), _deleted(options, report), _ageing(options, report)]
    finally:
        deletions.DELETION_LIMIT, retry.GAPS, full_sync.page_limit = brake, gap, limit
    return report.end("; ".join([*told, people.people(options, report)]))


# --- the platform's side -------------------------------------------------------------------------------


class Forgetful(Collection):
    """A collection whose list leaves records out that are there all the same."""

    hidden: frozenset[Key] = frozenset()

    def visible(self, person: Person) -> Iterable[dict[str, Any]]:
        return [record for record in super().list_visible(person) if record[self.key] not in self.hidden]


@contextmanager
def _platform(options: argparse.Namespace) -> Iterator[tuple[MirrorTrial, Later]]:
    """A mirror that has read everything, and its platform, some of whose lists can forget."""
    with movable_clock() as later, open_simulated_trial(options) as made:
        world = made.simulator.world
        few(made.simulator, monitors=40)
        faxes = world.collections["faxes"]
        pattern = next(iter(faxes.records.values()))
        for age in range(76):
            stamp = clock.utc_text(world.start - (80 - age) * DAY)
            faxes.add({**copy.deepcopy(pattern), "id": pattern["id"] - 76 + age, "created_at": stamp})
        for name in NAMES:
            was = world.collections[name]
            records = dict(sorted(was.records.items()))
            values = {field.name: getattr(was, field.name) for field in fields(Collection)}
            world.collections[name] = Forgetful(**{**values, "records": records})
            _walk(made, name, later)
        yield made, later


def _forget(made: MirrorTrial, name: str, keys: Iterable[Key]) -> None:
    collection = made.simulator.world.collections[name]
    assert isinstance(collection, Forgetful)
    collection.hidden = frozenset(keys)


def _records(made: MirrorTrial, name: str) -> dict[Key, dict[str, Any]]:
    return made.simulator.world.collections[name].records


def _delete(made: MirrorTrial, name: str, keys: Iterable[Key]) -> set[str]:
    """Returns our keys of them, which need not be the platform's, as text."""
    with made.simulator.world.lock:
        records = [_records(made, name).pop(key) for key in keys]
    return {str(record[PLAN[name].resource.key]) for record in records}


def _middle(made: MirrorTrial, name: str, share: float) -> list[Key]:
    """So much of a collection, neither its oldest nor its newest."""
    keys = sorted(_records(made, name))
    begin, count = len(keys) // 4, int(len(keys) * share)
    return keys[begin : begin + count]


# --- ours ----------------------------------------------------------------------------------------------


def _walk(made: MirrorTrial, name: str, later: Later, seconds: float = DAY) -> None:
    """The day's complete walk, whatever comes of it."""
    later(seconds)
    try:
        run_full_sync(made.parts, PLAN[name], restart=True)
    except PlatformError as error:
        store_failure(made.parts, PLAN[name], error)


def _missing(made: MirrorTrial, name: str) -> set[str]:
    table, key = PLAN[name].resource.table, PLAN[name].resource.key
    with made.mirror_db.read() as connection:
        rows = connection.execute(f'SELECT "{key}" FROM "{table}" WHERE _missing_since IS NOT NULL')
        return {str(row[0]) for row in rows}


def _alarm(made: MirrorTrial, name: str) -> str:
    """What people are told about held deletions; nothing where none are."""
    return str(made.health.report()["checks"].get(deletions.health_check_name(name), {}).get("error") or "")


def _held(made: MirrorTrial, name: str) -> int | None:
    with made.mirror_db.read() as connection:
        return collection_state.get_state(connection, name).held


def _nothing_lost(made: MirrorTrial, name: str, about: str, report: Report) -> None:
    lost = _missing(made, name)
    report.check(not lost, f"{about}: none of /{name} is lost, not {len(lost)}")


def _well_again(made: MirrorTrial, name: str, about: str, later: Later, report: Report) -> None:
    """The mistake is over."""
    made.faults("")
    _forget(made, name, ())
    _walk(made, name, later)
    report.check(made.differing_in([name]) == [], f"{about}: /{name} is as the platform has it after")
    report.check(
        not _alarm(made, name) and _held(made, name) is None, f"{about}: no alarm of /{name} is left"
    )


# --- mistakes ------------------------------------------------------------------------------------------


def _mistakes(options: argparse.Namespace, report: Report) -> str:
    rng, tried = random.Random(options.seed), 0
    with _platform(options) as (made, later):
        for name in NAMES:
            for fault in FAULTS:
                made.faults(fault.format(name))
                # Where there is no path to ask, two walks that miss the same few are the truth.
                few_told = "short-list" in fault and name == "ddis"
                for _ in range(1 if few_told else 3):
                    _walk(made, name, later)
                _nothing_lost(made, name, fault.format(name), report)
                _well_again(made, name, fault.format(name), later, report)
            keys, own = sorted(_records(made, name)), deletions.has_own_path(PLAN[name])
            # Again: what two walks missed is shown again once another sees it.
            for about, hidden, times in (
                ("a list that leaves some out", rng.sample(keys, min(6, len(keys) // 2)), 4 if own else 1),
                ("a list that leaves many out", rng.sample(keys, len(keys) // 2), 4),
                ("a list that ends early", keys[:-10], 4),
                ("a list that begins late", keys[10:], 4),
            ):
                _forget(made, name, hidden)
                for _ in range(times):
                    _walk(made, name, later)
                if times == 1 or own or len(hidden) > deletions.DELETION_LIMIT:
                    _nothing_lost(made, name, about, report)
                _well_again(made, name, about, later, report)
                tried += 1
    return f"{tried + len(NAMES) * len(FAULTS)} mistakes lost nothing"


# --- deleted -------------------------------------------------------------------------------------------


def _deleted(options: argparse.Namespace, report: Report) -> str:
    rng, gone = random.Random(options.seed), {name: set[str]() for name in NAMES}
    with _platform(options) as (made, later):
        download.download_due_files(made.parts)
        files = final(made.settings.storage.data_dir)
        were = {name: len(_records(made, name)) for name in NAMES}
        for number in range(options.rounds):
            name = rng.choice(NAMES)
            keys = sorted(_records(made, name))
            some = rng.sample(keys, rng.randint(0, min(5, len(keys) // 4)))
            gone[name].update(_delete(made, name, some))
            made.faults(rng.choice(FAULTS).format(name))
            _walk(made, name, later)
            lost = _missing(made, name) - gone[name]
            report.check(not lost, f"round {number}: /{name} loses {sorted(lost)}, which were not deleted")
            made.faults("")
            for _ in range(1 if deletions.has_own_path(PLAN[name]) else 2):
                _walk(made, name, later)
            found = _missing(made, name)
            report.check(
                found == gone[name],
                f"round {number}: of /{name} {len(found)} are marked, not {len(gone[name])}",
            )
        for name in NAMES:
            if PLAN[name].is_history:
                with made.mirror_db.read() as connection:
                    rows = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                report.check(rows == were[name], f"all {were[name]} of /{name} are in its table, not {rows}")
        report.check(final(made.settings.storage.data_dir) == files, "every archived file is kept")
    return f"{sum(map(len, gone.values()))} deletions in {options.rounds} rounds marked, no other"


# --- ageing --------------------------------------------------------------------------------------------


def _ageing(options: argparse.Namespace, report: Report) -> str:
    with _platform(options) as (made, later):
        for name, a_day, at_once in (("cdrs", 10, 50), ("faxes", 1, None)):
            aged: set[str] = set()
            for count in [a_day] * 5 + [at_once or 0]:
                oldest = sorted(_records(made, name))[:count]
                aged.update(_delete(made, name, oldest))
                _walk(made, name, later)
                report.check(not _alarm(made, name), f"what ages out of /{name} is no alarm")
            _walk(made, name, later)
            report.check(_missing(made, name) == aged, f"what aged out of /{name} is marked")
        # Nobody can be asked about a fax: half of them older than the rest are no day's ageing.
        _delete(made, "faxes", sorted(_records(made, "faxes"))[:40])
        for _ in range(3):
            _walk(made, "faxes", later)
        report.check(bool(_alarm(made, "faxes")), "forty days of faxes gone in a day are held")
    return "what ages out is known from what is cut off"


# --- brake ---------------------------------------------------------------------------------------------


def _brake(options: argparse.Namespace, report: Report) -> str:
    counts = []
    with _platform(options) as (made, later):
        for name, share in (("cdrs", 0.3), ("contacts", 0.5), ("faxes", 0.5)):
            there, gone = made.there(name), _delete(made, name, _middle(made, name, share))
            for _ in range(3):
                _walk(made, name, later)
            _nothing_lost(made, name, f"{len(gone)} deleted at once", report)
            report.check("--accept-deletions" in _alarm(made, name), f"/{name}: the alarm says what to do")
            report.check(
                _held(made, name) == len(gone), f"/{name}: {len(gone)} are held, not {_held(made, name)}"
            )
            made.health.unwatch(deletions.health_check_name(name))
            deletions.restore_health_failures(made.parts)
            report.check(bool(_alarm(made, name)), f"/{name}: a restart does not silence it")

            deletions.accept_deletions(made.parts, PLAN[name])
            made.faults(f"empty@/{name}")
            for _ in range(4):
                _walk(made, name, later)
            lost = _missing(made, name) - gone
            report.check(
                not lost, f"/{name}: what was accepted is no leave for an empty list: {len(lost)} lost"
            )
            made.faults("")
            _walk(made, name, later)
            deletions.accept_deletions(made.parts, PLAN[name])
            _walk(made, name, later)
            report.check(_missing(made, name) == gone, f"/{name}: what was accepted is gone")
            report.check(not _alarm(made, name), f"/{name}: then the alarm is over")

            back = deletions.restore_deleted(made.parts, PLAN[name])
            for _ in range(3):
                _walk(made, name, later)
            same = there == made.here(name)
            report.check(
                back == len(gone) and same, f"/{name}: undone, {back} of {len(gone)} are back and stay"
            )
            report.check(not _alarm(made, name), f"/{name}: and are no new alarm")
            counts.append(len(gone))
    return f"the brake held, let go and took back {', '.join(map(str, counts))}"
