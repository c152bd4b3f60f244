"""Retention: what is older than `retention.*` allows is removed, files and texts too, and stays away.

One thread calls `run()` now and then. Everything is removed in small transactions, so that webhooks never
wait behind a year that goes at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from integration.access import audit
from integration.alerts import notification_log as alert_log
from integration.core import clock
from integration.core.health import Health
from integration.exports import deliveries as export_deliveries
from integration.inbox.store import Inbox
from integration.mirror.calls.store import CallStore
from integration.mirror.privacy import retention_rules as expiry
from integration.mirror.privacy.held_records import Held
from integration.mirror.privacy.retention_rules import Limits
from integration.mirror.records import response_cache as answers
from integration.mirror.sync_state import media_files as media
from integration.privacy.erase import held_now
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync.writing import write_log as journal

T = TypeVar("T")

NAME = "retention"
EVERY_SECONDS = 3600.0

ANSWERS_KEPT = timedelta(days=1)
"""How long what the platform answered last stands in for it, once any record has an end: nobody knows how old
what it lists is."""


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
        held: Held | None = None,
    ) -> None:
        self._data_dir = settings.storage.data_dir
        self._limits = Limits(settings.retention)
        self._mirror, self._house, self._inbox = mirror, house, inbox
        self._calls = calls
        self._health = health
        self._held = held or Held()
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
            for what, number in (+removed).items():
                audit.record(self._house, NAME, "removed by retention", what, f"{number:,}")

    def _remove(self, removed: Counter[str]) -> None:
        with self._house.read() as house, self._mirror.read() as mirror:
            held = held_now(house, mirror, self._held)
        for file, holder in expiry.FILES.items():
            if limit := self._limits.of(holder):
                with self._mirror.read() as connection:
                    found = expiry.files(connection, file, limit)
                    free = set(held.spared(connection, media.table_of(file), [key for key, _ in found]))
                due = [one for one in found if one[0] in free]
                for some in self._slices(due, removed, f"{file} files before {limit}"):
                    expiry.remove_files(self._mirror, self._data_dir, file, some)
        if limit := self._limits.of("transcripts"):
            for table in expiry.TEXTS:
                with self._mirror.read() as connection:
                    keys = held.spared(connection, table, expiry.old_texts(connection, table, limit))
                for those in self._slices(keys, removed, f"texts of {table} before {limit}"):
                    self._mirror.write(partial(expiry.clear_texts, keys=those, table=table))
        if limit := self._limits.of("cdrs"):
            with self._mirror.read() as connection:
                keys = held.spared_calls(connection, expiry.old_calls(connection, limit))
            for those in self._slices(keys, removed, f"calls before {limit}"):
                self._mirror.write(partial(expiry.remove_calls, calls=those, store=self._calls))
        for table in expiry.ROWS:
            if limit := self._limits.rows(table):
                with self._mirror.read() as connection:
                    keys = held.spared(connection, table, expiry.old_rows(connection, table, limit))
                for those in self._slices(keys, removed, f"{table} before {limit}"):
                    self._mirror.write(
                        partial(expiry.remove_rows, keys=those, table=table, store=self._calls)
                    )
                self._mirror.write(partial(expiry.leftovers, table=table, limit=limit, held=held))
        if any(map(self._limits.rows, expiry.ROWS)):
            yesterday = clock.stamp(clock.now() - ANSWERS_KEPT)
            answered = self._mirror.write(partial(answers.forget, before=yesterday))
            removed[f"answers of the platform before {yesterday[:10]}"] += answered
        if limit := self._limits.of("inbox"):
            told = self._inbox.due(limit) if held else []
            spared = [seq for seq, call_id, body in told if held.webhook(call_id, body)]
            while not self._stopping.is_set() and (number := self._inbox.forget(limit, spared)):
                removed[f"webhooks before {limit}"] += number
                self._health.beat(NAME)
        logs = (("audit", audit), ("logs", journal), ("logs", alert_log), ("logs", export_deliveries))
        for kind, log in logs:
            if limit := self._limits.of(kind):
                removed[f"{kind} before {limit}"] += self._house.write(partial(log.forget, before=limit))

    def _slices(self, due: Sequence[T], removed: Counter[str], what: str) -> Iterator[Sequence[T]]:
        """`due` bit by bit, each counted once it is done with."""
        for begin in range(0, len(due), expiry.SLICE):
            if self._stopping.is_set():
                return
            some = due[begin : begin + expiry.SLICE]
            yield some
            removed[what] += len(some)
            self._health.beat(NAME)
