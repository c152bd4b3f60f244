"""Metrics of the running product: version, health checks, live streams, alerts, exports."""

from __future__ import annotations

import platform
import sqlite3

from integration import __version__
from integration.alerts import notification_log, rules
from integration.alerts.notification_log import CHANNELS
from integration.context import AppContext
from integration.core import installation
from integration.exports import jobs as export_jobs
from integration.web.metrics.registry import Family, Metrics, Values

BUILD_INFO = Family(
    "switchroom_build_info",
    "1, with the versions of Switchroom, Python and SQLite and the commit as labels.",
    ("version", "commit", "python", "sqlite"),
)
READY = Family("switchroom_ready", "1 while events can be stored and pages served.")
CHECK_OK = Family("switchroom_check_ok", "1 while the state of a health check is ok or waiting.", ("check",))
CHECK_FAILURES = Family(
    "switchroom_check_failures", "Failures of a health check since its last success.", ("check",)
)
HEARTBEAT_AGE = Family(
    "switchroom_check_heartbeat_age_seconds", "Seconds since the last heartbeat of a check.", ("check",)
)
LIVE_STREAMS = Family("switchroom_live_streams", "Open live streams.")
ALERTS = Family("switchroom_alerts_active", "Current alerts of all rules.")
NOTIFICATIONS = Family(
    "switchroom_notifications_waiting",
    "Notifications that wait for their first or next attempt.",
    ("channel",),
)
EXPORT_JOBS = Family("switchroom_export_jobs", "Prepared exports by state.", ("state",))
FAILING_SCHEDULES = Family(
    "switchroom_export_schedules_failing", "Export schedules whose last attempt failed."
)


def add_groups(metrics: Metrics, context: AppContext) -> None:
    """Add the groups `health`, `alerts` and `exports`."""

    versions = (
        __version__,
        installation.find_commit(),
        platform.python_version(),
        sqlite3.sqlite_version,
    )

    def read_health() -> Values:
        report = context.health.report()
        checks = report["checks"]
        return {
            BUILD_INFO: {versions: 1.0},
            READY: float(report["status"] != "unready"),
            CHECK_OK: {(name,): float(check["state"] in ("ok", "waiting")) for name, check in checks.items()},
            CHECK_FAILURES: {(name,): check["failures"] for name, check in checks.items()},
            HEARTBEAT_AGE: {
                (name,): check["seconds_since_beat"]
                for name, check in checks.items()
                if check["seconds_since_beat"] is not None
            },
            LIVE_STREAMS: context.live_hub.subscriber_count,
        }

    def read_alerts() -> Values:
        with context.app_db.read() as connection:
            alerts, waiting = rules.count_findings(connection), notification_log.count_waiting(connection)
        # A notice on the dashboard is not sent.
        sent_channels = [channel for channel in CHANNELS if channel != "notice"]
        return {
            ALERTS: alerts,
            NOTIFICATIONS: {(channel,): waiting.get(channel, 0) for channel in sent_channels},
        }

    def read_exports() -> Values:
        with context.app_db.read() as connection:
            downloads = export_jobs.count_downloads(connection)
            failing = export_jobs.list_failing(connection)
        return {
            EXPORT_JOBS: {(state,): downloads.get(state, 0) for state in export_jobs.DOWNLOAD_STATES},
            FAILING_SCHEDULES: len(failing),
        }

    metrics.add_group(
        "health",
        (BUILD_INFO, READY, CHECK_OK, CHECK_FAILURES, HEARTBEAT_AGE, LIVE_STREAMS),
        read_health,
    )
    metrics.add_group("alerts", (ALERTS, NOTIFICATIONS), read_alerts)
    metrics.add_group("exports", (EXPORT_JOBS, FAILING_SCHEDULES), read_exports)
