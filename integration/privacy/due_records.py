"""Data that retention deletes: older than its limit, without legal hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from integration.catalogue import TRANSCRIPT_FIELDS
from integration.context import AppContext
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.privacy.holds import refresh_held
from integration.privacy.personal_data import LABELS
from integration.settings.model import Retention
from integration.sqlite.transaction import Transaction

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

    `kind`: the kind of `retention.<kind>_days`. `label`: what the entries are; `entry`: the same in the audit
    log. `table`: that of the records. `find_old(connection)` returns what is dated before `limit`, a UTC
    text: ids of calls or records, and of files of `file_kind` also their paths. `remove` deletes it; files
    have none.
    """

    kind: str
    label: str
    entry: str
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
            yield Part(kind, label, f"{file_kind} files", table, limit, find, file_kind=file_kind)
    if limit := limits.for_kind("transcripts"):
        for table in TRANSCRIPT_FIELDS:
            yield Part(
                "transcripts",
                f"texts of {LABELS[table]}",
                f"texts of {table}",
                table,
                limit,
                partial(retention_rules.find_old_texts, table=table, limit=limit),
                partial(retention_rules.clear_texts, table=table),
            )
    if limit := limits.for_kind("cdrs"):
        find_calls = partial(retention_rules.find_old_calls, limit=limit)
        yield Part("cdrs", "calls", "calls", "_calls", limit, find_calls, retention_rules.remove_calls)
    for table, kinds in retention_rules.ROW_KINDS.items():
        if limit := limits.for_table(table):
            yield Part(
                kinds[min(1, len(kinds) - 1)],
                LABELS[table],
                table,
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
        held_records = refresh_held(app_connection, mirror_connection, HeldRecords())
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
