"""Trial of a disk that fails to sync."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.harness import wait_for
from tests.trials.tools.databases import DATABASES
from tests.trials.tools.disk_shim import build_shim
from tests.trials.tools.traffic import Senders
from tests.trials.trial import Trial, until

READY_SECONDS = 60.0
"""Longest recovery. A worker that meets the failing disk at its start pauses up to 10 s before the next."""


class SyncFailure(Trial):
    """Unsynced webhooks are not acknowledged; a failed sync is never repeated.

    Disturbed: while webhooks arrive, the syncs of each database fail repeatedly for a time, by a library
    before the C library (tools/disk_shim.py).
    Checked: a worker whose sync failed never syncs that database again, it ends; the next worker brings the
    write-ahead log, which may be in memory only, to the disk before it acknowledges; no acknowledged event is
    lost; webhooks are stored again within 60 s.
    Detects: a database that is written to after its disk failed.
    """

    name = "ioerror"
    size_option, size = "--rounds", 20
    bugs, symptoms = ("write_to_failed_disk",), ("never synced again",)
    short = ("--rounds 1", "--rounds 1 --seed-bug")
    promises = ("P18",)
    long = ("--rounds 5",) * 4

    def boot(self) -> None:
        self.disk = build_shim(self.folder, self.data_dir)
        self.product = self.start_product(self.data_dir, environment=self.disk.environment)

    def load(self) -> None:
        self.senders = Senders(self.product.port, self.product.webhook_path, rest=0.01)

    def disturb(self) -> None:
        failures, recoveries = 0, []
        for number in range(self.options.size):
            for name in ("inbox.db",) if self.is_seeded else DATABASES:
                failures += self._fail(name, 4 if self.is_seeded else 120)
                began = time.monotonic()
                stored = f"round {number}, {name}: webhooks are stored again"
                self.verify_soon(
                    lambda began=began: self.senders.since(began)[200] > 50, stored, READY_SECONDS
                )
                recoveries.append(time.monotonic() - began)
        self.senders.stop()
        self.verify(failures > 0, "a sync failed")
        workers = len({pid for pid, succeeded, _ in self.disk.list_syncs() if not succeeded})
        self.figures.append(
            f"{failures} syncs failed, {workers} workers ended; statuses {dict(self.senders.statuses)}"
            f" (0: connection broke); recovered within {max(recoveries):.1f} s"
        )

    def _fail(self, name: str, patience: float) -> int:
        """Let the syncs of one database fail until a worker has ended.

        `patience`: seconds until that counts as failed. Returns the number of failed syncs.
        """
        before, worker = len(self.disk.list_syncs()), self.product.worker
        self.disk.fail(name)
        began = time.monotonic()

        def list_failed() -> list[int]:
            return [pid for pid, succeeded, _ in self.disk.list_syncs()[before:] if not succeeded]

        wait_for(lambda: list_failed() or self._write_to(name), f"a failing sync of {name}", 240)
        ended = f"{name}: the worker whose sync failed ends, and another replaces it"
        self.verify_soon(lambda: self.product.worker not in (None, worker), ended, patience)
        if name == "inbox.db":
            # The next worker meets the same disk.
            replaced = time.monotonic()
            until(lambda: len(set(list_failed())) > 1, min(patience, 10))
            stored = self.senders.since(replaced)[200]
            self.verify(stored == 0, f"no webhook is acknowledged while the disk fails, not {stored}")
        statuses = self.senders.since(began)
        self.verify(set(statuses) <= {0, 200, 503}, f"{name}: 200, 503 or no response, not {statuses}")
        self.disk.fail()
        return len(list_failed())

    def _write_to(self, name: str) -> None:
        """Cause a write to house.db, by an unknown key of the facade."""
        if name == "house.db":
            self.product.client.send("GET", "/v1.2/ping", headers={"X-Auth-Token": "f" * 40})

    def check(self) -> None:
        self.verify_applied(self.data_dir)
        self.verify_stored(self.data_dir, self.senders.acknowledged)
        repeated, unsafe = find_unsafe_syncs(self.disk.list_syncs())
        self.verify(
            not repeated,
            f"a database whose sync failed is never synced again by that process: {repeated[:3]}",
        )
        # The last close of another program checkpoints the log as well.
        is_checkpointed = not unsafe or self.options.visitor
        self.verify(is_checkpointed, f"the next worker first checkpoints the log it finds: {unsafe[:3]}")


def find_unsafe_syncs(
    syncs: Sequence[tuple[int, bool, Path]],
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Find processes that synced after a failure, or extended an unsynced log.

    A process must bring the log of an earlier one into the database before it adds to the log.
    """
    failed_pids: dict[str, int] = {}
    first_syncs: dict[tuple[int, str], list[str]] = {}
    repeated, unsafe = [], []
    for pid, succeeded, path in syncs:
        database = path.name.removesuffix("-wal")
        if database not in DATABASES:
            continue
        if failed_pids.get(database) == pid:
            repeated.append((pid, database))
        elif not succeeded:
            failed_pids[database] = pid
        elif database in failed_pids:
            own = first_syncs.setdefault((pid, database), [])
            own.append(path.name)
            if len(own) == 2:
                if database not in own:
                    unsafe.append((pid, database))
                del failed_pids[database]
    return repeated, unsafe
