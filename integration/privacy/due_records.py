"""Data that retention deletes: older than its limit, without legal hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

from integration.access import audit
from integration.alerts import notification_log
from integration.catalogue import TRANSCRIPT_FIELDS
from integration.context import AppContext
from integration.exports import jobs as export_jobs
from integration.mirror.privacy import retention_rules
from integration.mirror.privacy.held_records import HeldRecords
from integration.mirror.privacy.retention_rules import RetentionLimits
from integration.mirror.sync_state import media_files
from integration.mirror.sync_state.media_files import MediaKind
from integration.privacy.holds import refresh_held
from integration.privacy.personal_data import LABELS
from integration.settings.model import Retention
from integration.sync.writing import write_log
from integration.workspace import text_back

LOGS = (
    ("audit", "audit entries", audit),
    ("logs", "changes sent", write_log),
    ("logs", "notifications", notification_log),
    ("logs", "texts sent back", text_back),
    ("logs", "export deliveries", export_jobs),
)
"""Kind of `retention.<kind>_days`, label, and module of each log in house.db."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the mirror that is deleted by age.

    `kind`: the kind of `retention.<kind>_days`. `label`: what the entries are; `entry`: the same in the audit
    log. `removes`: the way of deletion, for `subject` (kind of file or table). `find_old(connection)` returns
    what is dated before `limit`, a UTC text.
    """

    kind: str
    label: str
    entry: str
    removes: Literal["files", "texts", "calls", "rows"]
    subject: str
    limit: str
    find_old: Callable[[sqlite3.Connection], list[Any]]

    def find(self, connection: sqlite3.Connection, held_records: HeldRecords) -> list[Any]:
        """Return the ids of calls or records, or id and path of files, that are not under legal hold."""
        found = self.find_old(connection)
        if self.removes == "calls":
            return held_records.exclude_held_calls(connection, found)
        if self.removes != "files":
            return held_records.exclude_held(connection, self.subject, found)
        table = media_files.get_record_table(cast(MediaKind, self.subject))
        unheld_keys = set(held_records.exclude_held(connection, table, [key for key, _ in found]))
        return [file for file in found if file[0] in unheld_keys]


def list_parts(limits: RetentionLimits) -> Iterator[Part]:
    """Yield the parts with a limit, in the order of their deletion."""
    find: Callable[[sqlite3.Connection], list[Any]]
    for file_kind, kind in retention_rules.FILE_KINDS.items():
        if limit := limits.for_kind(kind):
            find = partial(retention_rules.find_old_files, kind=file_kind, limit=limit)
            label = f"{file_kind.replace('_', ' ')} files"
            yield Part(kind, label, f"{file_kind} files", "files", file_kind, limit, find)
    if limit := limits.for_kind("transcripts"):
        for table in TRANSCRIPT_FIELDS:
            find = partial(retention_rules.find_old_texts, table=table, limit=limit)
            label = f"texts of {LABELS[table]}"
            yield Part("transcripts", label, f"texts of {table}", "texts", table, limit, find)
    if limit := limits.for_kind("cdrs"):
        find = partial(retention_rules.find_old_calls, limit=limit)
        yield Part("cdrs", "calls", "calls", "calls", "_calls", limit, find)
    for table, kinds in retention_rules.ROW_KINDS.items():
        if limit := limits.for_table(table):
            find = partial(retention_rules.find_old_rows, table=table, limit=limit)
            yield Part(kinds[min(1, len(kinds) - 1)], LABELS[table], table, "rows", table, limit, find)


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
            DueCount(kind, label, log.count_before(app_connection, limit))
            for kind, label, log in LOGS
            if (limit := limits.for_kind(kind))
        ]
    if limit := limits.for_kind("inbox"):
        held_count = (
            sum(
                held_records.is_webhook_held(call_id, body)
                for _, call_id, body in context.inbox.list_before(limit)
            )
            if held_records
            else 0
        )
        counts.append(DueCount("inbox", "webhooks", _count_webhooks(context, limit) - held_count))
    return [count for count in counts if count.number]


def _count_webhooks(context: AppContext, limit: str) -> int:
    with context.inbox.database.read() as connection:
        sql = "SELECT count(*) FROM inbox WHERE received_at < ?"
        return int(connection.execute(sql, (limit,)).fetchone()[0])
