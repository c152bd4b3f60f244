"""Retention: remove records, texts and files older than `retention.*` permanently.

One thread calls `run()` periodically. Data is removed in small transactions, so that the removal of an entire
year does not delay webhooks.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeVar

from integration.access import audit
from integration.alerts import notification_log
from integration.core import clock
from integration.core.health import Health
from integration.exports import delivery_states
from integration.inbox.store import Inbox
from integration.maintenance import upgrade
from integration.mirror.calls.store import CallStore
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.records import response_cache
from integration.privacy import copies, due_records
from integration.privacy.erase import refresh_held
from integration.settings.model import Settings
from integration.sqlite.database import Database
from integration.sync.writing import write_log

T = TypeVar("T")
log = logging.getLogger(__name__)

JOB_NAME = "retention"
"""Name of the job and of its health check."""
INTERVAL_SECONDS = 3600.0
"""Seconds between runs."""

RESPONSE_CACHE_AGE = timedelta(days=1)
"""Age at which cached responses are deleted if a retention limit of records is set.

The age of the records in a cached response is unknown."""


class RetentionJob:
    """Job that removes old data.

    `is_needed`: at least one limit is set, of retention or of the data before a restore, or there is data
    before an upgrade.
    """

    def __init__(
        self,
        settings: Settings,
        mirror_db: Database,
        app_db: Database,
        inbox: Inbox,
        call_store: CallStore,
        health: Health,
        held_records: HeldRecords | None = None,
    ) -> None:
        self._settings, self._data_dir = settings, settings.storage.data_dir
        self._limits = RetentionLimits(settings.retention)
        self._mirror_db, self._app_db, self._inbox = mirror_db, app_db, inbox
        self._call_store = call_store
        self._health = health
        self._held_records = HeldRecords() if held_records is None else held_records
        self._stopping = threading.Event()
        self._held_copies: set[str] = set()
        """Names of the copies that legal holds protect, which are logged once."""
        self.is_needed = bool(
            any(settings.retention.model_dump().values())
            or settings.storage.keep_before_restore_days
            or upgrade.has_copies(self._data_dir)
        )

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()

    def run(self) -> None:
        """Remove all expired data. Raises StorageError or OSError; completed batches stay removed."""
        removed = Counter[str]()
        try:
            self._remove_due(removed)
        finally:
            for label, number in (+removed).items():
                audit.record(self._app_db, JOB_NAME, "removed by retention", label, f"{number:,}")

    def _remove_due(self, removed: Counter[str]) -> None:
        with self._app_db.read() as app_connection, self._mirror_db.read() as mirror_connection:
            held_records = refresh_held(app_connection, mirror_connection, self._held_records)
        self._remove_copies(held_records)
        for file_kind, limit_name in retention_rules.FILE_KINDS.items():
            if limit := self._limits.for_kind(limit_name):
                with self._mirror_db.read() as connection:
                    due_files = due_records.find_files(connection, file_kind, limit, held_records)
                for batch in self._iterate_batches(due_files, removed, f"{file_kind} files before {limit}"):
                    retention_rules.remove_files(self._mirror_db, self._data_dir, file_kind, batch)
        if limit := self._limits.for_kind("transcripts"):
            for table in retention_rules.TEXT_FIELDS:
                with self._mirror_db.read() as connection:
                    keys = due_records.find_texts(connection, table, limit, held_records)
                for key_batch in self._iterate_batches(keys, removed, f"texts of {table} before {limit}"):
                    self._mirror_db.write(partial(retention_rules.clear_texts, keys=key_batch, table=table))
        if limit := self._limits.for_kind("cdrs"):
            with self._mirror_db.read() as connection:
                keys = due_records.find_calls(connection, limit, held_records)
            for key_batch in self._iterate_batches(keys, removed, f"calls before {limit}"):
                self._mirror_db.write(
                    partial(retention_rules.remove_calls, call_ids=key_batch, call_store=self._call_store)
                )
        for table in retention_rules.ROW_KINDS:
            if limit := self._limits.for_table(table):
                with self._mirror_db.read() as connection:
                    keys = due_records.find_rows(connection, table, limit, held_records)
                for key_batch in self._iterate_batches(keys, removed, f"{table} before {limit}"):
                    self._mirror_db.write(
                        partial(
                            retention_rules.remove_rows,
                            keys=key_batch,
                            table=table,
                            call_store=self._call_store,
                        )
                    )
                self._mirror_db.write(
                    partial(
                        retention_rules.remove_related_rows,
                        table=table,
                        limit=limit,
                        held_records=held_records,
                    )
                )
        if any(map(self._limits.for_table, retention_rules.ROW_KINDS)):
            yesterday = clock.utc_text(clock.now() - RESPONSE_CACHE_AGE)
            removed_responses = self._mirror_db.write(
                partial(response_cache.delete_older_than, before=yesterday)
            )
            removed[f"cached responses before {yesterday[:10]}"] += removed_responses
        if limit := self._limits.for_kind("inbox"):
            due_webhooks = self._inbox.list_before(limit) if held_records else []
            held_seqs = [
                seq for seq, call_id, body in due_webhooks if held_records.is_webhook_held(call_id, body)
            ]
            while not self._stopping.is_set() and (
                removed_count := self._inbox.delete_before(limit, held_seqs)
            ):
                removed[f"webhooks before {limit}"] += removed_count
                self._health.beat(JOB_NAME)
        logs = (
            ("audit", audit),
            ("logs", write_log),
            ("logs", notification_log),
            ("logs", delivery_states),
        )
        for kind, log in logs:
            if limit := self._limits.for_kind(kind):
                deleted_count = self._app_db.write(partial(log.delete_before, before=limit))
                removed[f"{kind} before {limit}"] += deleted_count

    def _remove_copies(self, held_records: HeldRecords) -> None:
        """Delete expired copies, except those with data under legal hold."""
        expired_copies, held_copies = copies.find_expired(self._settings, held_records)
        for copy in expired_copies:
            copy.delete()
            audit.record(self._app_db, JOB_NAME, "removed by retention", f"{copy.kind}: {copy.path.name}")
            self._health.beat(JOB_NAME)
        held_names = {copy.path.name for copy in held_copies}
        for name in sorted(held_names - self._held_copies):
            log.warning("%s is kept, because it contains data under legal hold", name)
        self._held_copies = held_names

    def _iterate_batches(
        self, due_items: Sequence[T], removed: Counter[str], label: str
    ) -> Iterator[Sequence[T]]:
        """Yield batches of `due_items`.

        Count each batch in `removed` after it was processed.
        """
        for offset in range(0, len(due_items), retention_rules.BATCH_SIZE):
            if self._stopping.is_set():
                return
            batch = due_items[offset : offset + retention_rules.BATCH_SIZE]
            yield batch
            removed[label] += len(batch)
            self._health.beat(JOB_NAME)
