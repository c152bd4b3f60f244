"""Data that retention deletes: older than its limit, without legal hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

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


def find_files(
    connection: sqlite3.Connection, kind: MediaKind, limit: str, held_records: HeldRecords
) -> list[tuple[int, str]]:
    """Return the files dated before `limit` (UTC text).

    Each has the id of its record and its path below data_dir.
    """
    old_files = retention_rules.find_old_files(connection, kind, limit)
    table = media_files.get_record_table(kind)
    unheld_keys = set(held_records.exclude_held(connection, table, [key for key, _ in old_files]))
    return [file for file in old_files if file[0] in unheld_keys]


def find_texts(
    connection: sqlite3.Connection, table: str, limit: str, held_records: HeldRecords
) -> list[int]:
    """Return the ids of records dated before `limit` with texts."""
    return held_records.exclude_held(
        connection, table, retention_rules.find_old_texts(connection, table, limit)
    )


def find_calls(connection: sqlite3.Connection, limit: str, held_records: HeldRecords) -> list[int]:
    """Return the ids of calls that ended before `limit`."""
    return held_records.exclude_held_calls(connection, retention_rules.find_old_calls(connection, limit))


def find_rows(connection: sqlite3.Connection, table: str, limit: str, held_records: HeldRecords) -> list[int]:
    """Return the ids of records dated before `limit`."""
    return held_records.exclude_held(
        connection, table, retention_rules.find_old_rows(connection, table, limit)
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
            *_count_mirror(mirror_connection, limits, held_records),
            *_count_logs(app_connection, limits),
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


def _count_mirror(
    connection: sqlite3.Connection, limits: RetentionLimits, held_records: HeldRecords
) -> Iterator[DueCount]:
    if limit := limits.for_kind("cdrs"):
        yield DueCount("cdrs", "calls", len(find_calls(connection, limit, held_records)))
    for table, kinds in retention_rules.ROW_KINDS.items():
        if limit := limits.for_table(table):
            label = LABELS.get(table, table)
            number = len(find_rows(connection, table, limit, held_records))
            yield DueCount(kinds[min(1, len(kinds) - 1)], label, number)
    for file_kind, kind in retention_rules.FILE_KINDS.items():
        if limit := limits.for_kind(kind):
            number = len(find_files(connection, file_kind, limit, held_records))
            yield DueCount(kind, f"{file_kind.replace('_', ' ')} files", number)
    if limit := limits.for_kind("transcripts"):
        for table in TRANSCRIPT_FIELDS:
            number = len(find_texts(connection, table, limit, held_records))
            yield DueCount("transcripts", f"texts of {LABELS[table]}", number)


def _count_logs(connection: sqlite3.Connection, limits: RetentionLimits) -> Iterator[DueCount]:
    if limit := limits.for_kind("audit"):
        yield DueCount("audit", "audit entries", audit.count_before(connection, limit))
    if limit := limits.for_kind("logs"):
        yield DueCount("logs", "changes sent", write_log.count_before(connection, limit))
        yield DueCount("logs", "notifications", notification_log.count_before(connection, limit))
        yield DueCount("logs", "export deliveries", export_jobs.count_before(connection, limit))
