"""Retention: remove records, texts and files older than `retention.*` permanently.

One thread calls `run()` periodically. Data is removed in small transactions, so that the removal of an entire
year does not delay webhooks.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from integration.access import audit
from integration.catalogue import TRANSCRIPT_FIELDS
from integration.context import AppContext
from integration.core import clock
from integration.maintenance import upgrade
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.records import response_cache
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.privacy import copies, holds
from integration.privacy.personal_data import LABELS
from integration.settings.model import Retention
from integration.sqlite.transaction import Transaction

log = logging.getLogger(__name__)

JOB_NAME = "retention"
"""Name of the job and of its health check."""
INTERVAL_SECONDS = 3600.0
"""Seconds between runs."""

RESPONSE_CACHE_AGE = timedelta(days=1)
"""Age at which cached responses are deleted if a retention limit of records is set.

The age of the records in a cached response is unknown."""


LOGS = (
    ("audit", "audit entries", "audit WHERE at < ?"),
    ("logs", "changes sent", "journal WHERE at < ?"),
    ("logs", "notifications", "alert_log WHERE at < ? AND state <> 'waiting'"),
    ("logs", "texts sent back", "text_back_calls WHERE at < ?"),
    ("logs", "export deliveries", "export_attempts WHERE at < ?"),
)
"""Kind of `retention.<kind>_days`, label, and SQL of the entries before a limit, of each log in house.db."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the mirror that is deleted by age.

    `kind`: the kind of `retention.<kind>_days`. `label`: what the entries are. `table`: that of the records.
    `find_old(connection)` returns what is dated before `limit`, a UTC text: ids of calls or records, and of
    files of `file_kind` also their paths. `remove` deletes it; files have none.
    """

    kind: str
    label: str
    table: str
    limit: str
    find_old: Callable[[sqlite3.Connection], list[Any]]
    remove: Callable[[Transaction, Sequence[int]], None] | None = None
    file_kind: MediaKind | None = None

    def exclude_held(
        self, connection: sqlite3.Connection, held_records: HeldRecords, found: Sequence[Any]
    ) -> list[Any]:
        """Return what is not under legal hold."""
        if self.table == "_calls":
            return held_records.exclude_held_calls(connection, found)
        if self.file_kind is None:
            return held_records.exclude_held(connection, self.table, found)
        unheld_keys = set(held_records.exclude_held(connection, self.table, [key for key, _ in found]))
        return [file for file in found if file[0] in unheld_keys]

    def find(self, connection: sqlite3.Connection, held_records: HeldRecords) -> list[Any]:
        """Return what is due."""
        return self.exclude_held(connection, held_records, self.find_old(connection))


def list_parts(limits: RetentionLimits) -> Iterator[Part]:
    """Yield the parts with a limit, in the order of their deletion."""
    for file_kind, kind in retention_rules.FILE_KINDS.items():
        if limit := limits.for_kind(kind):
            label, table = f"{file_kind.replace('_', ' ')} files", media_files.get_record_table(file_kind)
            find = partial(retention_rules.find_old_files, kind=file_kind, limit=limit)
            yield Part(kind, label, table, limit, find, file_kind=file_kind)
    if limit := limits.for_kind("transcripts"):
        for table in TRANSCRIPT_FIELDS:
            yield Part(
                "transcripts",
                f"texts of {LABELS[table]}",
                table,
                limit,
                partial(retention_rules.find_old_texts, table=table, limit=limit),
                partial(retention_rules.clear_texts, table=table),
            )
    if limit := limits.for_kind("cdrs"):
        find_calls = partial(retention_rules.find_old_calls, limit=limit)
        yield Part("cdrs", "calls", "_calls", limit, find_calls, retention_rules.remove_calls)
    for table, kinds in retention_rules.ROW_KINDS.items():
        if limit := limits.for_table(table):
            yield Part(
                kinds[min(1, len(kinds) - 1)],
                LABELS[table],
                table,
                limit,
                partial(retention_rules.find_old_rows, table=table, limit=limit),
                partial(retention_rules.remove_rows, table=table),
            )


@dataclass(frozen=True, slots=True)
class DueCount:
    """Number of entries that retention deletes.

    `kind`: the kind of `retention.<kind>_days`. `label`: what the entries are.
    """

    kind: str
    label: str
    number: int


def count_all(context: AppContext, retention: Retention, seconds: float) -> list[DueCount]:
    """Count what a run with the limits `retention` deletes, without zeros.

    Changes nothing. Raises sqlite3.OperationalError 'interrupted' after `seconds`.
    """
    limits = RetentionLimits(retention)
    with context.app_db.read(seconds) as app_connection, context.mirror_db.read(seconds) as mirror_connection:
        held_records = holds.refresh_held(app_connection, mirror_connection, HeldRecords())
        counts = [
            DueCount(part.kind, part.label, len(part.find(mirror_connection, held_records)))
            for part in list_parts(limits)
        ]
        counts += [
            DueCount(kind, label, _count(app_connection, entries, limit))
            for kind, label, entries in LOGS
            if (limit := limits.for_kind(kind))
        ]
    if limit := limits.for_kind("inbox"):
        with context.inbox.database.read() as connection:
            number = _count(connection, "inbox WHERE received_at < ?", limit)
        if held_records:
            due_webhooks = context.inbox.list_before(limit)
            number -= sum(held_records.is_webhook_held(call_id, body) for _, call_id, body in due_webhooks)
        counts.append(DueCount("inbox", "webhooks", number))
    return [count for count in counts if count.number]


def _count(connection: sqlite3.Connection, entries: str, limit: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {entries}", (limit,)).fetchone()[0])


class RetentionJob:
    """Job that removes old data.

    `is_needed`: at least one limit is set, of retention or of the data before a restore, or there is data
    before an upgrade.
    """

    def __init__(self, context: AppContext) -> None:
        self._context, settings = context, context.settings
        self._limits = RetentionLimits(settings.retention)
        self._mirror_db, self._app_db = context.mirror_db, context.app_db
        self._health, self._held_records = context.health, context.held_records
        self._stopping = threading.Event()
        self._held_copies: set[str] = set()
        """Names of the copies that legal holds protect, which are logged once."""
        self.is_needed = bool(
            any(settings.retention.model_dump().values())
            or settings.storage.keep_before_restore_days
            or upgrade.has_copies(settings.storage.data_dir)
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
        held_records = holds.refresh(self._context)
        self._remove_copies(held_records)
        for part in list_parts(self._limits):
            self._remove_part(part, removed)
        limits_by_table = {table: self._limits.for_table(table) for table in retention_rules.ROW_KINDS}
        for table, limit in limits_by_table.items():
            if limit:
                remove = partial(retention_rules.remove_related_rows, table=table, limit=limit)
                self._mirror_db.write(partial(remove, held_records=held_records))
        if limit := limits_by_table["chats"]:
            self._remove_messages(limit)
        if any(limits_by_table.values()):
            yesterday = clock.utc_text(clock.now() - RESPONSE_CACHE_AGE)
            removed_responses = self._mirror_db.write(
                partial(response_cache.delete_older_than, before=yesterday)
            )
            removed[f"cached responses before {yesterday[:10]}"] += removed_responses
        if limit := self._limits.for_kind("inbox"):
            self._remove_webhooks(limit, removed)
        for kind, _, entries in LOGS:
            if limit := self._limits.for_kind(kind):
                delete = partial(_delete, entries=entries, limit=limit)
                removed[f"{kind} before {limit}"] += self._app_db.write(delete)

    def _remove_copies(self, held_records: HeldRecords) -> None:
        """Delete expired copies, except those with data under legal hold."""
        held_names = set[str]()
        for copy in copies.find_expired(self._context.settings):
            if copy.has_held_data(held_records):
                held_names.add(copy.path.name)
                continue
            copy.delete()
            audit.record(self._app_db, JOB_NAME, "removed by retention", f"{copy.kind}: {copy.path.name}")
            self._health.beat(JOB_NAME)
        for name in sorted(held_names - self._held_copies):
            log.warning("%s is kept, because it contains data under legal hold", name)
        self._held_copies = held_names

    def _remove_part(self, part: Part, removed: Counter[str]) -> None:
        """Remove a part in batches, without what has come under legal hold since it was found."""
        with self._mirror_db.read() as connection:
            found = part.find(connection, self._held_records)
        for offset in range(0, len(found), retention_rules.BATCH_SIZE):
            if self._stopping.is_set():
                return
            batch = found[offset : offset + retention_rules.BATCH_SIZE]
            removed[f"{part.label} before {part.limit}"] += self._remove_batch(part, batch)
            self._health.beat(JOB_NAME)

    def _remove_batch(self, part: Part, batch: Sequence[Any]) -> int:
        def work(tx: Transaction) -> int:
            due = part.exclude_held(tx.connection, self._held_records, batch)
            if part.remove is not None:
                part.remove(tx, due)
            return len(due)

        if part.file_kind is None:
            return self._mirror_db.write(work)
        with self._mirror_db.read() as connection:
            files = part.exclude_held(connection, self._held_records, batch)
        retention_rules.remove_files(
            self._mirror_db, self._context.settings.storage.data_dir, part.file_kind, files
        )
        return len(files)

    def _remove_messages(self, limit: str) -> None:
        """Remove expired chat messages.

        The writer parses only those of users with expired ones, and one user's at a time.
        """
        with self._mirror_db.read() as connection:
            user_ids = retention_rules.find_users_with_old_messages(connection, limit, self._held_records)
        for user_id in user_ids:
            if self._stopping.is_set():
                return
            delete = partial(retention_rules.delete_messages, user_id=user_id, limit=limit)
            self._mirror_db.write(partial(delete, held_records=self._held_records))
            self._health.beat(JOB_NAME)

    def _remove_webhooks(self, limit: str, removed: Counter[str]) -> None:
        held_records, found_for = self._held_records, None
        held_seqs: list[int] = []
        while not self._stopping.is_set():
            held_now = (held_records.numbers, held_records.legs)
            if held_now != found_for:
                found_for = held_now
                due_webhooks = self._context.inbox.list_before(limit) if held_records else []
                held_seqs = [
                    seq for seq, call_id, body in due_webhooks if held_records.is_webhook_held(call_id, body)
                ]
            if not (removed_count := self._context.inbox.delete_before(limit, held_seqs)):
                return
            removed[f"webhooks before {limit}"] += removed_count
            self._health.beat(JOB_NAME)


def _delete(tx: Transaction, entries: str, limit: str) -> int:
    return tx.execute(f"DELETE FROM {entries}", (limit,)).rowcount
