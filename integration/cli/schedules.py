"""`switchroom schedules`: what is exported by schedule and where each stands, beside a running serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from integration.cli import config_option, exit_on_error, print_table
from integration.core import clock
from integration.exports import schedule_status
from integration.settings.model import load
from integration.sqlite.readers import ReadOnlyDatabase


@click.command("schedules")
@config_option
@exit_on_error
def command(config: Path | None) -> None:
    """List the schedules of exports, which the dashboard has under System, Exports. Times are UTC; exit
    status 1 where one fails."""
    app_db = ReadOnlyDatabase(load(config, os.environ).storage.data_dir / "house.db")
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
