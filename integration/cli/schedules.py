"""Command `switchroom schedules`: export schedules and their state; `serve` may run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from integration.cli import exit_on_error, json_option, local_settings_option, print_json, print_table
from integration.core import clock
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.exports.jobs import ScheduleStatus
    from integration.settings.model import Settings


@click.command("schedules")
@exit_on_error
@json_option
@local_settings_option
def command(as_json: bool, settings: Settings) -> None:
    """List the export schedules and their state.

    Users manage them on the dashboard page Exports. Times are UTC. The exit status is 1 if a schedule
    is failing."""
    # Imported here, because `--help` does not need the exports.
    from integration.exports import jobs

    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    rows = [("NAME", "EXPORT", "WHEN", "WHERE TO", "LAST", "STATE")]
    statuses: list[ScheduleStatus] = []
    if app_db.exists:
        with app_db.read() as connection:
            statuses = jobs.list_statuses(connection, clock.now())
    has_failure = any(status.state == "failing" for status in statuses)
    if as_json:
        print_json({"schedules": [_describe_status(status) for status in statuses]})
        sys.exit(int(has_failure))
    for status in statuses:
        schedule = status.schedule
        rows.append(
            (
                schedule.name,
                f"{schedule.export}.{schedule.display_form}",
                f"{jobs.FREQUENCY_LABELS[schedule.every or '']} at {schedule.at} {schedule.zone}",
                f"{schedule.target} {schedule.display_place}".strip(),
                "never" if status.last is None else f"{status.last.period} {status.last.state}",
                f"next {status.next_at}"
                if status.state == "ok"
                else f"{status.state} {status.about}".strip(),
            )
        )
    print_table(rows)
    sys.exit(int(has_failure))


def _describe_status(status: ScheduleStatus) -> dict[str, Any]:
    schedule, last = status.schedule, status.last
    return {
        "name": schedule.name,
        "export": schedule.export,
        "format": schedule.form,
        "by_month": schedule.is_by_month,
        "every": schedule.every,
        "at": schedule.at,
        "timezone": schedule.zone,
        "target": schedule.target,
        "place": schedule.display_place,
        "state": status.state,
        "reason": status.about,
        "next_at": status.next_at,
        "last": None if last is None else {"period": last.period, "state": last.state},
    }
