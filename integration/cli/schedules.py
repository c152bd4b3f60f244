"""Command `switchroom schedules`: export schedules and their state; `serve` may run."""

from __future__ import annotations

import sys

import click

from integration.cli import exit_on_error, print_table, settings_option
from integration.core import clock
from integration.exports import schedule_status
from integration.settings.model import Settings
from integration.sqlite.readers import ReadOnlyDatabase


@click.command("schedules")
@exit_on_error
@settings_option
def command(settings: Settings) -> None:
    """List the export schedules and their state.

    Users manage them on the dashboard page System, Exports. Times are UTC. The exit status is 1 if a schedule
    is failing."""
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    rows = [("NAME", "EXPORT", "WHEN", "WHERE TO", "LAST", "STATE")]
    statuses: list[schedule_status.ScheduleStatus] = []
    if app_db.exists:
        with app_db.read() as connection:
            statuses = schedule_status.list_statuses(connection, clock.now())
    for status in statuses:
        schedule = status.schedule
        rows.append(
            (
                schedule.name,
                f"{schedule.export}.{schedule.form}",
                f"{schedule_status.FREQUENCY_LABELS[schedule.every]} at {schedule.at} {schedule.zone}",
                f"{schedule.target} {schedule.display_place}".strip(),
                "never" if status.last is None else f"{status.last.period} {status.last.state}",
                f"next {status.next_at}"
                if status.state == "ok"
                else f"{status.state} {status.about}".strip(),
            )
        )
    print_table(rows)
    sys.exit(int(any(status.state == "failing" for status in statuses)))
