"""Trial of another program that opens and closes the databases."""

from __future__ import annotations

import time
from pathlib import Path

from integration.maintenance.manifest import DATABASES
from tests.support.database_locks import find_missing_locks
from tests.support.harness import wait_for
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial, await_new_worker, kill_worker

NUMBER = "+447700900123"
EVENTS = 200
"""Acknowledgements between two disturbances."""


class Visitor(Trial):
    """Another program that opens and closes the databases costs no acknowledged event.

    Disturbed: while webhooks arrive, another program opens and closes each database for reading and for
    writing, about 25 times a second. `erase`, `backup`, `verify` and `export` run, and the worker is killed;
    then the write-ahead log of each database is deleted under the worker.
    Checked: after each command the worker has its locks on all databases; no acknowledged event is lost;
    after the deletion of a log `/readyz` is 503, and a new worker stores webhooks.
    Detects: a search for an erased number that opens the databases in the worker.
    """

    name = "visitor"
    size_option, size = "--rounds", 20
    bugs, symptoms = ("search_files_in_worker",), ("has its locks", "lost")
    short = ("--rounds 1", "--rounds 1 --seed-bug")
    promises = ("P30",)
    long = ("--rounds 10",) * 2

    def boot(self) -> None:
        self.options.visitor = True
        self.product = self.start_product(self.data_dir, dashboard__country="GB")

    def load(self) -> None:
        self.senders = Senders(self.product.port, self.product.webhook_path, count=8, rest=0.01)

    def disturb(self) -> None:
        kills = 0
        for number in range(self.options.size):
            for command in self._list_commands(self.folder / f"out-{number}"):
                self._await_events()
                done = self.product.command(*command)
                missing = find_missing_locks(self.product.worker or 0, self.data_dir)
                self.verify(
                    not missing, f"after `{command[0]}` the worker has its locks, not without {missing}"
                )
                self.verify(
                    done.returncode == 0, f"`{command[0]}` ends with status 0, not {done.stderr[-300:]}"
                )
                self._await_events()
                await_new_worker(self.product, kill_worker(self.product))
                kills += 1
        deletions = 0 if self.is_seeded else sum(map(self._delete_log, DATABASES))
        self.senders.stop()
        self.figures.append(
            f"{kills} kills, {deletions} logs deleted; statuses {dict(self.senders.statuses)}"
        )

    def _list_commands(self, target: Path) -> list[tuple[str, ...]]:
        erase = ("erase", NUMBER, "--yes")
        if self.is_seeded:
            return [erase]
        return [
            erase,
            ("backup", str(target)),
            ("verify", "--quick"),
            ("export", "calls", "--out", f"{target}.csv"),
        ]

    def _await_events(self) -> None:
        began = time.monotonic()
        wait_for(lambda: self.senders.since(began)[200] > EVENTS, "acknowledgements", 240)

    def _delete_log(self, name: str) -> bool:
        self._await_events()
        worker = self.product.worker
        (self.data_dir / f"{name}-wal").unlink()
        self.verify_soon(
            lambda: self.product.client.send("GET", "/readyz")[0] == 503, f"{name}: /readyz is 503", 60
        )
        await_new_worker(self.product, worker)
        self._await_events()
        return True

    def check(self) -> None:
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        if not self.is_seeded:
            self.verify_applied(self.data_dir)
