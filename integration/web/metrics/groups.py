"""Groups of metrics. A metric is stated where its value is read."""

from __future__ import annotations

import platform
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import partial

from prometheus_client.core import Metric

from integration import __version__
from integration.alerts import notification_log, rules
from integration.alerts.notification_log import CHANNELS
from integration.context import AppContext
from integration.core import clock, installation
from integration.events import delivery_log, subscriptions
from integration.exports import jobs as export_jobs
from integration.inbox import apply
from integration.maintenance.rotation import BackupRotation
from integration.mirror.derived import due
from integration.mirror.derived.calls import LEGS
from integration.mirror.derived.registry import DERIVED
from integration.mirror.page_queries import live
from integration.mirror.sync_state import collection_state, completeness, media_files
from integration.sync.files.download import list_enabled_kinds
from integration.web.metrics.registry import Metrics, counter, gauge

FILE_STATES = ("have", "wanted", "failed", "gone")


def add_groups(metrics: Metrics, context: AppContext, rotation: BackupRotation) -> None:
    """Add all groups."""
    for name, read in (
        ("health", _read_health),
        ("alerts", _read_alerts),
        ("exports", _read_exports),
        ("events", _read_events),
        ("inbox", _read_inbox),
        ("archive", _read_archive),
        ("disk", _read_disk),
        ("collections", _read_collections),
        ("calls", _read_calls),
        ("platform", _read_platform),
    ):
        metrics.add_group(name, partial(read, context))
    metrics.add_group("backups", partial(_read_backups, context, rotation))


def _read_health(context: AppContext) -> Iterator[Metric]:
    report = context.health.report(with_read_facts=False)
    checks = report["checks"]
    versions = (__version__, installation.find_commit(), platform.python_version(), sqlite3.sqlite_version)
    yield gauge(
        "switchroom_build_info",
        "1, with the versions of Switchroom, Python and SQLite and the commit as labels.",
        {versions: 1.0},
        *("version", "commit", "python", "sqlite"),
    )
    yield gauge(
        "switchroom_ready",
        "1 while events can be stored and pages served.",
        float(report["status"] != "unready"),
    )
    yield gauge(
        "switchroom_check_ok",
        "1 while the state of a health check is ok or waiting.",
        {name: float(check["state"] in ("ok", "waiting")) for name, check in checks.items()},
        "check",
    )
    yield gauge("switchroom_live_streams", "Open live streams.", context.live_hub.subscriber_count)


def _read_alerts(context: AppContext) -> Iterator[Metric]:
    with context.app_db.read() as connection:
        alerts, waiting = rules.count_findings(connection), notification_log.count_waiting(connection)
    yield gauge("switchroom_alerts_active", "Current alerts of all rules.", alerts)
    # A notice on the dashboard is not sent.
    yield gauge(
        "switchroom_notifications_waiting",
        "Notifications that wait for their first or next attempt.",
        {channel: waiting.get(channel, 0) for channel in CHANNELS if channel != "notice"},
        "channel",
    )


def _read_exports(context: AppContext) -> Iterator[Metric]:
    with context.app_db.read() as connection:
        downloads = export_jobs.count_downloads(connection)
        failing = export_jobs.list_failing(connection)
    yield gauge(
        "switchroom_export_jobs",
        "Prepared exports by state.",
        {state: downloads.get(state, 0) for state in export_jobs.DOWNLOAD_STATES},
        "state",
    )
    yield gauge(
        "switchroom_export_schedules_failing", "Export schedules whose last attempt failed.", len(failing)
    )


def _read_events(context: AppContext) -> Iterator[Metric]:
    with context.app_db.read() as connection:
        states = Counter(one.state for one in subscriptions.list_all(connection))
        set_aside = delivery_log.list_set_aside(connection)
    yield gauge(
        "switchroom_outgoing_webhooks",
        "Outgoing webhooks by state. failing: the next event waits for a retry.",
        {state: states[state] for state in subscriptions.STATES},
        "state",
    )
    yield gauge(
        "switchroom_events_set_aside",
        "Events that a receiver refused and that no replay has delivered since.",
        len(set_aside),
    )


def _read_inbox(context: AppContext) -> Iterator[Metric]:
    unapplied = apply.read_backlog(context.inbox)
    oldest = clock.parse_utc(unapplied.oldest_received_at)
    yield counter(
        "switchroom_webhooks_total",
        "Webhooks by the response to their sender.",
        context.inbox.count_acknowledgements(),
        "outcome",
    )
    yield gauge(
        "switchroom_inbox_unapplied_webhooks",
        "Stored webhooks that are not applied yet.",
        unapplied.count,
    )
    # A clock that was set back is no negative age.
    yield gauge(
        "switchroom_inbox_oldest_unapplied_age_seconds",
        "Age of the oldest stored webhook that is not applied, 0 without one.",
        max(0.0, (clock.now() - oldest).total_seconds()) if oldest else 0.0,
    )


def _read_archive(context: AppContext) -> Iterator[Metric]:
    with context.mirror_db.read() as connection:
        files = media_files.count_by_state(connection, list_enabled_kinds(context.settings))
        sizes = media_files.count_bytes_by_kind(connection)
    kinds: tuple[str, ...] = media_files.AUTOMATIC_KINDS
    yield gauge(
        "switchroom_archive_files",
        "Files of the archive by kind and state. Files that only a user requested count once they are"
        " stored.",
        {(kind, state): 0 for kind in kinds for state in FILE_STATES} | files,
        *("kind", "state"),
    )
    yield gauge(
        "switchroom_archive_size_bytes",
        "Bytes of the downloaded files.",
        dict.fromkeys(kinds, 0) | sizes,
        "kind",
    )


def _read_disk(context: AppContext) -> Iterator[Metric]:
    free_bytes = shutil.disk_usage(context.settings.storage.data_dir).free
    databases = [context.inbox.database, context.mirror_db, context.app_db]
    logs = {database.name: database.path.with_name(f"{database.name}-wal") for database in databases}
    yield gauge(
        "switchroom_database_size_bytes",
        "Bytes of a database, without its write-ahead log.",
        {database.name: database.path.stat().st_size for database in databases},
        "database",
    )
    yield gauge(
        "switchroom_database_wal_size_bytes",
        "Bytes of the write-ahead log of a database.",
        {name: path.stat().st_size if path.exists() else 0 for name, path in logs.items()},
        "database",
    )
    yield gauge("switchroom_disk_free_bytes", "Free bytes of the file system of data_dir.", free_bytes)


def _read_backups(context: AppContext, rotation: BackupRotation) -> Iterator[Metric]:
    if rotation.newest_created_at:
        yield gauge(
            "switchroom_backup_last_success_timestamp_seconds",
            "Unix time of the newest scheduled backup. Missing before the first.",
            rotation.newest_created_at.timestamp(),
        )
    if context.settings.backup.every_hours:
        yield gauge(
            "switchroom_backup_last_attempt_ok",
            "1 if the last scheduled backup succeeded or none was due since the start. Missing if"
            " backup.every_hours is 0.",
            float(rotation.is_last_attempt_ok),
        )


def _read_collections(context: AppContext) -> Iterator[Metric]:
    with context.mirror_db.read() as connection:
        states = collection_state.list_states(connection)
        differences = completeness.list_differences(connection)
    gap_counts = Counter(one.collection for one in differences if one.is_gap)
    synced_times = {state.collection: clock.parse_utc(state.last_success_at) for state in states}
    yield gauge(
        "switchroom_collection_last_sync_timestamp_seconds",
        "Unix time of the last successful sync of a collection, or of the last poll of live calls.",
        {name: time.timestamp() for name, time in synced_times.items() if time},
        "collection",
    )
    yield gauge(
        "switchroom_collection_complete",
        "1 if a collection was ever read completely and the platform does not refuse it.",
        {state.collection: float(state.can_serve_reads and state.off_since is None) for state in states},
        "collection",
    )
    yield gauge(
        "switchroom_collection_gaps",
        "UTC days on which platform and mirror have different numbers of records.",
        {state.collection: gap_counts[state.collection] for state in states},
        "collection",
    )
    yield gauge(
        "switchroom_collection_sync_failures",
        "Failed syncs of a collection since its last successful one.",
        {state.collection: state.failures for state in states},
        "collection",
    )


def _read_calls(context: AppContext) -> Iterator[Metric]:
    with context.mirror_db.read() as connection:
        counts = live.count_live_calls(connection)
        due_states = due.list_states(connection, DERIVED)
    due_counts = {state.derived.name: float(state.count) for state in due_states}
    yield gauge(
        "switchroom_calls_open",
        "Calls that have not ended, by state. unconfirmed: neither webhook nor poll reports them now.",
        {
            state: getattr(counts, state)
            for state in ("ringing", "dialling", "talking", "on_hold", "unconfirmed")
        },
        "state",
    )
    yield gauge(
        "switchroom_legs_waiting",
        "Legs stored by an initial sync whose calls are not computed yet.",
        due_counts.get(LEGS.name, 0.0),
    )
    yield gauge(
        "switchroom_due",
        "Keys whose derived rows are not computed yet, by derived table (`search`: calls).",
        dict.fromkeys((derived.name for derived in DERIVED), 0.0) | due_counts,
        "table",
    )
    yield gauge(
        "switchroom_due_since_timestamp_seconds",
        "Unix time since which the oldest of these keys is due.",
        {state.derived.name: state.since for state in due_states},
        "table",
    )


def _read_platform(context: AppContext) -> Iterator[Metric]:
    state = context.platform.budget.state()
    yield counter(
        "switchroom_platform_requests_total",
        "Requests sent to the platform by status code; none: no response.",
        context.platform.count_responses(),
        "code",
    )
    yield gauge(
        "switchroom_platform_reachable",
        "0 while no request to the platform succeeds, else 1.",
        float(state.open_since is None),
    )
    yield gauge(
        "switchroom_platform_budget_requests_per_second",
        "Rate that the scheduler may use now. It shrinks after failures and grows with successes.",
        state.per_minute / 60,
    )
    yield gauge(
        "switchroom_platform_budget_limit_requests_per_second",
        "Configured rate (sync.max_requests_per_minute).",
        state.full / 60,
    )
