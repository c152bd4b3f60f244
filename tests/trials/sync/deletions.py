"""Trial of deletions at the platform."""

from __future__ import annotations

import argparse
import copy
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from integration.core import clock, retry_delays
from integration.core.errors import PlatformError
from integration.simulator.records.people import Person
from integration.simulator.records.store import Collection
from integration.sync.files import download
from integration.sync.plan import PLAN
from integration.sync.reading import deletions, full_sync
from integration.sync.reading.full_sync import run_full_sync
from integration.sync.reading.page_store import store_failure
from tests.trials.long_form import LongForm
from tests.trials.storage.archived_files import hash_files
from tests.trials.sync.deletion_pages import check_surfaces
from tests.trials.tools.local_mirror import keep_newest, movable_clock
from tests.trials.trial import Trial

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
Key = Any


class PartlyHidden(Collection):
    """A collection whose list leaves out records that exist."""

    hidden: frozenset[Key] = frozenset()

    def list_visible(self, person: Person) -> Iterable[dict[str, Any]]:
        return [record for record in super().list_visible(person) if record[self.key] not in self.hidden]


class Deletions(Trial):
    """Records deleted at the platform are marked; wrong lists lose none.

    Disturbed: lists are empty, short, truncated and refused; records are deleted among such failures; old
    records are deleted day by day; many records are deleted at once.
    Checked: exactly the deleted records are marked, history and its files are kept; more deletions than the
    limit are held and reported, also after a restart, and can be accepted and undone; commands, pages, facade
    and exports show it.
    Detects: a sync that accepts any number of deletions.
    """

    name = "deletions"
    size_option, size = "--rounds", 60
    bugs, symptoms = ("ignore_deletion_limit",), ("deleted at once",)
    short = ("--rounds 6", "--seed-bug")
    long = LongForm(
        promises=("P13",),
        rounds=("--rounds 30",) * 2,
        minutes=12,
        remains="",
        expectation="simulator: its records at that time; hand-written exchanges: trial `exchanges`",
    )
    expects_errors = True

    @classmethod
    def add_options(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cdrs", type=int, default=60, help="calls at the platform")

    def disturb(self) -> None:
        self.patch(retry_delays, "REQUESTS", (0.002,))
        # Small pages, so that each collection has several.
        self.patch(full_sync, "page_limit", lambda _failures: 31)
        self._exceed_limit()
        if not self.is_seeded:
            self._try_mistakes()
            self._delete_among_mistakes()
            self._age()
            check_surfaces(self, self.options.cdrs)

    # --- the platform ----------------------------------------------------------------------------------

    @contextmanager
    def _open_platform(self) -> Iterator[None]:
        """Open a synced mirror of a platform that can hide records."""
        with movable_clock() as self.later, self.open_simulated_mirror(self.options.cdrs) as self.mirror:
            world = self.mirror.simulator.world
            keep_newest(self.mirror.simulator, monitors=40)
            faxes = world.collections["faxes"]
            pattern = next(iter(faxes.records.values()))
            for age in range(76):
                stamp = clock.utc_text(world.start - (80 - age) * DAY)
                faxes.add({**copy.deepcopy(pattern), "id": pattern["id"] - 76 + age, "created_at": stamp})
            for name in NAMES:
                collection = world.collections[name]
                values = {field.name: getattr(collection, field.name) for field in fields(Collection)}
                records = dict(sorted(collection.records.items()))
                world.collections[name] = PartlyHidden(**{**values, "records": records})
                self._sync(name)
            yield

    def _hide(self, name: str, keys: Iterable[Key]) -> None:
        collection = self.mirror.simulator.world.collections[name]
        assert isinstance(collection, PartlyHidden)
        collection.hidden = frozenset(keys)
        listed = len(list(collection.list_visible(self.mirror.simulator.admin)))
        expected = len(collection.records) - len(collection.hidden)
        self.verify(listed == expected, f"the platform lists {expected} of /{name}, not {listed}")

    def _delete(self, name: str, keys: Iterable[Key]) -> set[str]:
        """Delete records at the platform. Returns their keys in the mirror."""
        with self.mirror.simulator.world.lock:
            records = [self.mirror.get_records(name).pop(key) for key in keys]
        return {str(record[PLAN[name].resource.key]) for record in records}

    def _choose_middle(self, name: str, share: float) -> list[Key]:
        """Return keys that are neither the oldest nor the newest."""
        keys = sorted(self.mirror.get_records(name))
        begin, count = len(keys) // 4, int(len(keys) * share)
        return keys[begin : begin + count]

    # --- the mirror ------------------------------------------------------------------------------------

    def _sync(self, name: str) -> None:
        """Run the full sync of the next day."""
        self.later(DAY)
        try:
            run_full_sync(self.mirror.context, PLAN[name], restart=True)
        except PlatformError as error:
            store_failure(self.mirror.context, PLAN[name], error)

    def _list_missing(self, name: str) -> set[str]:
        return self.mirror.read_keys(name, "_missing_since IS NOT NULL")

    def _get_failure(self, name: str) -> str:
        """Return the reported failure about held deletions."""
        return self.mirror.get_health_error(deletions.health_check_name(name))

    def _get_held(self, name: str) -> int | None:
        held: int | None = self.mirror.get_state(name).held
        return held

    def _check_nothing_lost(self, name: str, where: str) -> None:
        lost = self._list_missing(name)
        self.verify(not lost, f"{where}: no record of /{name} is lost, not {len(lost)}")

    def _end_mistake(self, name: str, where: str) -> None:
        """Let the platform work again, and compare."""
        self.mirror.set_fault("")
        self._hide(name, ())
        self._sync(name)
        differing = self.mirror.list_differing(name)
        self.verify(differing == [], f"{where}: /{name} equals the platform afterwards")
        is_quiet = not self._get_failure(name) and self._get_held(name) is None
        self.verify(is_quiet, f"{where}: no failure of /{name} is reported afterwards")

    # --- situations ------------------------------------------------------------------------------------

    def _try_mistakes(self) -> None:
        """Let lists be wrong; check that no record is lost."""
        rng, tried = random.Random(self.options.seed), 0
        with self._open_platform():
            for name in NAMES:
                for fault in FAULTS:
                    self.mirror.set_fault(fault.format(name))
                    # Without a path of its own a record that two syncs miss counts as deleted.
                    is_undetectable = "short-list" in fault and name == "ddis"
                    for _ in range(1 if is_undetectable else 3):
                        self._sync(name)
                    self._check_nothing_lost(name, fault.format(name))
                    self._end_mistake(name, fault.format(name))
                keys, has_path = sorted(self.mirror.get_records(name)), deletions.has_own_path(PLAN[name])
                # A record that two syncs missed is shown again once another lists it.
                for about, hidden, times in (
                    (
                        "a list that leaves some out",
                        rng.sample(keys, min(6, len(keys) // 2)),
                        4 if has_path else 1,
                    ),
                    ("a list that leaves many out", rng.sample(keys, len(keys) // 2), 4),
                    ("a list that ends early", keys[:-10], 4),
                    ("a list that begins late", keys[10:], 4),
                ):
                    self._hide(name, hidden)
                    for _ in range(times):
                        self._sync(name)
                    if times == 1 or has_path or len(hidden) > deletions.DELETION_LIMIT:
                        self._check_nothing_lost(name, about)
                    self._end_mistake(name, about)
                    tried += 1
        self.sums["wrong responses"] = tried + len(NAMES) * len(FAULTS)
        self.figures.append(f"{tried + len(NAMES) * len(FAULTS)} wrong responses lost no record")

    def _delete_among_mistakes(self) -> None:
        """Delete records while lists are wrong.

        Exactly these records are marked, and their files are kept.
        """
        rng, deleted = random.Random(self.options.seed), {name: set[str]() for name in NAMES}
        with self._open_platform():
            download.download_due_files(self.mirror.context)
            files = hash_files(self.mirror.data_dir)
            counts = {name: len(self.mirror.get_records(name)) for name in NAMES}
            for number in range(self.options.size):
                name = rng.choice(NAMES)
                keys = sorted(self.mirror.get_records(name))
                some = rng.sample(keys, rng.randint(0, min(5, len(keys) // 4)))
                deleted[name].update(self._delete(name, some))
                self.mirror.set_fault(rng.choice(FAULTS).format(name))
                self._sync(name)
                lost = self._list_missing(name) - deleted[name]
                self.verify(not lost, f"round {number}: /{name} loses {sorted(lost)}, which were not deleted")
                self.mirror.set_fault("")
                for _ in range(1 if deletions.has_own_path(PLAN[name]) else 2):
                    self._sync(name)
                found = self._list_missing(name)
                self.verify(
                    found == deleted[name],
                    f"round {number}: of /{name} {len(found)} are marked, not {len(deleted[name])}",
                )
            for name in NAMES:
                if PLAN[name].is_history:
                    rows = self.mirror.query(f'SELECT count(*) FROM "{name}"')[0][0]
                    self.verify(
                        rows == counts[name],
                        f"all {counts[name]} records of /{name} are kept in its table, not {rows}",
                    )
            self.verify(hash_files(self.mirror.data_dir) == files, "every archived file is kept")
        self.sums["rounds with deletions"] = self.options.size
        self.sums["records deleted and marked"] = sum(map(len, deleted.values()))
        self.figures.append(
            f"{sum(map(len, deleted.values()))} deletions in {self.options.size} rounds marked"
        )

    def _age(self) -> None:
        """Delete the oldest records, day by day and many at once."""
        with self._open_platform():
            for name, a_day, at_once in (("cdrs", 10, 50), ("faxes", 1, None)):
                aged: set[str] = set()
                for count in [a_day] * 5 + [at_once or 0]:
                    oldest = sorted(self.mirror.get_records(name))[:count]
                    aged.update(self._delete(name, oldest))
                    self._sync(name)
                    self.verify(
                        not self._get_failure(name), f"the day's retention of /{name} reports no failure"
                    )
                self._sync(name)
                self.verify(self._list_missing(name) == aged, f"deleted old records of /{name} are marked")
            # Faxes have no path of their own: 40 at once are more than a day's retention.
            self._delete("faxes", sorted(self.mirror.get_records("faxes"))[:40])
            for _ in range(3):
                self._sync("faxes")
            self.verify(bool(self._get_failure("faxes")), "40 days of faxes deleted in a day are held")

    def _exceed_limit(self) -> None:
        """Delete many records; check that they are held, accepted and restored."""
        counts = []
        with self._open_platform():
            for name, share in (("cdrs", 0.3), ("contacts", 0.5), ("faxes", 0.5)):
                before = self.mirror.list_keys(name)
                deleted = self._delete(name, self._choose_middle(name, share))
                for _ in range(3):
                    self._sync(name)
                self._check_nothing_lost(name, f"{len(deleted)} deleted at once")
                self.verify(
                    "--accept-deletions" in self._get_failure(name), f"/{name}: the failure shows the command"
                )
                self.verify(
                    self._get_held(name) == len(deleted),
                    f"/{name}: {len(deleted)} are held, not {self._get_held(name)}",
                )
                self.mirror.health.unwatch(deletions.health_check_name(name))
                deletions.restore_health_failures(self.mirror.context)
                self.verify(bool(self._get_failure(name)), f"/{name}: a restart reports it again")

                deletions.accept_deletions(self.mirror.context, PLAN[name])
                self.mirror.set_fault(f"empty@/{name}")
                for _ in range(4):
                    self._sync(name)
                lost = self._list_missing(name) - deleted
                self.verify(
                    not lost, f"/{name}: accepted deletions do not allow an empty list: {len(lost)} lost"
                )
                self.mirror.set_fault("")
                self._sync(name)
                deletions.accept_deletions(self.mirror.context, PLAN[name])
                self._sync(name)
                self.verify(self._list_missing(name) == deleted, f"/{name}: accepted deletions are marked")
                self.verify(not self._get_failure(name), f"/{name}: the failure is no longer reported")

                back = deletions.restore_deleted(self.mirror.context, PLAN[name])
                for _ in range(3):
                    self._sync(name)
                same = before == self.mirror.read_keys(name)
                self.verify(
                    back == len(deleted) and same,
                    f"/{name}: after the undo {back} of {len(deleted)} are restored and stay",
                )
                self.verify(not self._get_failure(name), f"/{name}: restored records report no failure")
                counts.append(len(deleted))
        self.figures.append(f"held, accepted and restored: {', '.join(map(str, counts))} records")
