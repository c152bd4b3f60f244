"""Metrics of stored data: inbox, archive, databases, disk, backups."""

from __future__ import annotations

import shutil

from integration.context import AppContext
from integration.core import clock
from integration.inbox import apply
from integration.maintenance.rotation import BackupRotation
from integration.mirror.sync_state import media_files
from integration.sync.files.download import list_enabled_kinds
from integration.web.metrics.registry import Family, Metrics, Values

FILE_STATES = ("have", "wanted", "failed", "gone")

WEBHOOKS = Family(
    "switchroom_webhooks_total",
    "Webhooks by the response to their sender.",
    ("outcome",),
    is_counter=True,
)
UNAPPLIED = Family("switchroom_inbox_unapplied_webhooks", "Stored webhooks that are not applied yet.")
UNAPPLIED_AGE = Family(
    "switchroom_inbox_oldest_unapplied_age_seconds",
    "Age of the oldest stored webhook that is not applied, 0 without one.",
)
ARCHIVE_FILES = Family(
    "switchroom_archive_files",
    "Files of the archive by kind and state. Files that only a user requested count once they are stored.",
    ("kind", "state"),
)
ARCHIVE_BYTES = Family("switchroom_archive_size_bytes", "Bytes of the downloaded files.", ("kind",))
DATABASE_BYTES = Family(
    "switchroom_database_size_bytes", "Bytes of a database, without its write-ahead log.", ("database",)
)
WAL_BYTES = Family(
    "switchroom_database_wal_size_bytes", "Bytes of the write-ahead log of a database.", ("database",)
)
DISK_FREE = Family("switchroom_disk_free_bytes", "Free bytes of the file system of data_dir.")
DISK_SIZE = Family("switchroom_disk_size_bytes", "Bytes of the file system of data_dir.")
BACKUP_TIME = Family(
    "switchroom_backup_last_success_timestamp_seconds",
    "Unix time of the newest scheduled backup. Missing before the first.",
)
BACKUP_OK = Family(
    "switchroom_backup_last_attempt_ok",
    "1 if the last scheduled backup succeeded or none was due since the start. Missing if"
    " backup.every_hours is 0.",
)


def add_groups(metrics: Metrics, context: AppContext, rotation: BackupRotation) -> None:
    """Add the groups `inbox`, `archive`, `disk` and `backups`."""

    def read_inbox() -> Values:
        backlog = apply.read_backlog(context.inbox)
        oldest = clock.parse_utc(backlog.oldest_received_at)
        return {
            WEBHOOKS: {(name,): value for name, value in context.inbox.count_acknowledgements().items()},
            UNAPPLIED: backlog.count,
            # A clock that was set back is no negative age.
            UNAPPLIED_AGE: max(0.0, (clock.now() - oldest).total_seconds()) if oldest else 0.0,
        }

    def read_archive() -> Values:
        with context.mirror_db.read() as connection:
            files = media_files.count_by_state(connection, list_enabled_kinds(context.settings))
            size_by_kind = media_files.count_bytes_by_kind(connection)
        files_by_state: dict[tuple[str, ...], float] = {
            (kind, state): 0 for kind in media_files.AUTOMATIC_KINDS for state in FILE_STATES
        }
        files_by_state |= files  # type: ignore[arg-type]
        return {
            ARCHIVE_FILES: files_by_state,
            ARCHIVE_BYTES: {
                (kind,): size_by_kind.get(kind, 0)
                for kind in sorted({*media_files.AUTOMATIC_KINDS, *size_by_kind})
            },
        }

    def read_disk() -> Values:
        usage = shutil.disk_usage(context.settings.storage.data_dir)
        databases = [context.inbox.database, context.mirror_db, context.app_db]
        wal_paths = {database.name: database.path.with_name(f"{database.name}-wal") for database in databases}
        return {
            DATABASE_BYTES: {(database.name,): database.path.stat().st_size for database in databases},
            WAL_BYTES: {
                (name,): path.stat().st_size if path.exists() else 0 for name, path in wal_paths.items()
            },
            DISK_FREE: usage.free,
            DISK_SIZE: usage.total,
        }

    def read_backups() -> Values:
        newest = rotation.newest_created_at
        return {
            BACKUP_TIME: newest.timestamp() if newest else None,
            BACKUP_OK: float(rotation.is_last_attempt_ok) if context.settings.backup.every_hours else None,
        }

    metrics.add_group("inbox", (WEBHOOKS, UNAPPLIED, UNAPPLIED_AGE), read_inbox)
    metrics.add_group("archive", (ARCHIVE_FILES, ARCHIVE_BYTES), read_archive)
    metrics.add_group("disk", (DATABASE_BYTES, WAL_BYTES, DISK_FREE, DISK_SIZE), read_disk)
    metrics.add_group("backups", (BACKUP_TIME, BACKUP_OK), read_backups)
