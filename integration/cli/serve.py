"""Command `switchroom serve`."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from integration.cli import config_option, load_settings
from integration.cli.console import is_quiet
from integration.core import logs, process_memory

WARNING_PREFIX = "warning: "


@click.command(
    "serve",
    help="Run the webhook receiver, the scheduler, the dashboard and the REST facade."
    " Stops cleanly on SIGTERM and SIGINT.",
)
@config_option
def command(config: Path | None) -> None:
    settings = load_settings(config)
    process_memory.restart_with_limits()
    # Imported here because Granian is needed only with valid settings.
    from integration.server import supervisor
    from integration.settings.sources import find_file

    file = find_file(config, os.environ)
    origin = "environment variables" if file is None else str(file.absolute())
    supervisor.serve(settings, _ignore if is_quiet() else _write_line, origin=origin)


def _write_line(line: str) -> None:
    """Write a line of the start in the form of the log."""
    is_warning = line.startswith(WARNING_PREFIX)
    if is_warning and logs.is_json():
        line = line.removeprefix(WARNING_PREFIX)
    logs.print_line(line, logging.WARNING if is_warning else logging.INFO)


def _ignore(_line: str) -> None:
    """Write no line of the start: the log has errors."""
