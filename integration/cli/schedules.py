"""`switchroom schedules`: what is exported by schedule and where each stands, beside a running serve."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from integration.cli import config_option, guarded
from integration.cli.user import show_table
from integration.core import clock
from integration.exports import schedule_status as overview
from integration.settings.model import load
from integration.sqlite.beside import Beside


@click.command("schedules")
@config_option
@guarded
def command(config: Path | None) -> None:
    """List the schedules of exports, which the dashboard has under System, Exports. Times are UTC; exit
    status 1 where one fails."""
    house = Beside(load(config, os.environ).storage.data_dir / "house.db")
    rows = [("NAME", "EXPORT", "WHEN", "WHERE TO", "LAST", "STATE")]
    found: list[overview.Line] = []
    if house.exists:
        with house.read() as connection:
            found = overview.lines(connection, clock.now())
    for line in found:
        one = line.schedule
        rows.append(
            (
                one.name,
                f"{one.export}.{one.form}",
                f"{overview.EVERY[one.every]} at {one.at} {one.zone}",
                f"{one.target} {one.shown_place}".strip(),
                "never" if line.last is None else f"{line.last.period} {line.last.state}",
                f"next {line.next_at}" if line.state == "ok" else f"{line.state} {line.about}".strip(),
            )
        )
    show_table(rows)
    sys.exit(int(any(line.state == "failing" for line in found)))
