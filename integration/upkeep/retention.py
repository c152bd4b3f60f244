"""Retention: what is older than `retention.*` allows is removed, files and texts too, and stays away.

One thread calls `run()` now and then. Everything is removed in small transactions, so that webhooks never
wait behind a year that goes at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from integration.database import Database, Transaction
from integration.health import Health
from integration.house import alert_log, audit, export_deliveries, journal
from integration.inbox.store import Inbox
from integration.mirror import expiry
from integration.mirror.calls.store import CallStore
from integration.mirror.expiry import Limits
from integration.mirror.media import Kind
from integration.settings import Settings

NAME = "retention"
EVERY_SECONDS = 3600.0


class Keeper:
    """Removes; `wanted` says whether any kind has an end at all."""

    def __init__(
        self,
        settings: Settings,
        mirror: Database,
        house: Database,
        inbox: Inbox,
        calls: CallStore,
        health: Health,
    ) -> None:
        self._data_dir = settings.storage.data_dir
        self._limits = Limits(settings.retention)
        self._mirror, self._house, self._inbox = mirror, house, inbox
        self._calls = calls
        self._health = health
        self._stopping = threading.Event()
        self.wanted = any(settings.retention.model_dump().values())

    def stop(self) -> None:
        """End after the slice at hand."""
        self._stopping.set()

    def run(self) -> None:
        """Remove all that is due. Raises StorageError, OSError; what was removed before stays so."""
        removed = Counter[str]()
        try:
            self._remove(removed)
        finally:
            for what, number in removed.items():
                audit.record(self._house, NAME, "removed by retention", what, f"{number:,}")

    def _remove(self, removed: Counter[str]) -> None:
        for file, holder in expiry.FILES.items():
            if limit := self._limits.of(holder):
                self._repeat(removed, f"{file} files before {limit}", partial(self._files, file, limit))
        if limit := self._limits.of("transcripts"):
            for table in expiry.TEXTS:
                self._slices(
                    removed,
                    f"texts of {table} before {limit}",
                    partial(expiry.texts, table=table, limit=limit),
                )
        if limit := self._limits.of("cdrs"):
            self._slices(
                removed, f"calls before {limit}", partial(expiry.calls, store=self._calls, limit=limit)
            )
        for table in expiry.ROWS:
            if limit := self._limits.rows(table):
                self._slices(
                    removed,
                    f"{table} before {limit}",
                    partial(expiry.rows, store=self._calls, table=table, limit=limit),
                )
                self._mirror.write(partial(expiry.leftovers, table=table, limit=limit))
        if limit := self._limits.of("inbox"):
            self._repeat(removed, f"webhooks before {limit}", partial(self._inbox.forget, limit))
        logs = (("audit", audit), ("logs", journal), ("logs", alert_log), ("logs", export_deliveries))
        for kind, log in logs:
            if limit := self._limits.of(kind):
                removed[f"{kind} before {limit}"] += self._house.write(partial(log.forget, before=limit))
        for what in [what for what, number in removed.items() if not number]:
            del removed[what]

    def _slices(self, removed: Counter[str], what: str, job: Callable[[Transaction], int]) -> None:
        self._repeat(removed, what, lambda: self._mirror.write(job))

    def _repeat(self, removed: Counter[str], what: str, work: Callable[[], int]) -> None:
        while not self._stopping.is_set() and (number := work()):
            removed[what] += number
            self._health.beat(NAME)

    def _files(self, kind: Kind, limit: str) -> int:
        with self._mirror.read() as connection:
            due = expiry.files(connection, kind, limit)
        if due:
            expiry.remove_files(self._mirror, self._data_dir, kind, due)
        return len(due)
