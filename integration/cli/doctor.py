"""Command `switchroom doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from integration.cli import config_option
from integration.core.errors import ConfigurationError
from integration.settings.model import load

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(
    "doctor",
    help="Check configuration, disk, clock, platform, credentials and public URL, and suggest fixes."
    " The exit status is 1 if a check fails.",
)
@config_option
def command(config: Path | None) -> None:
    try:
        settings = load(config, os.environ)
    except ConfigurationError as error:
        for mistake in error.mistakes:
            _print_line("fail", f"fail  configuration: {mistake}")
        sys.exit(2)
    # Imported here because it is not needed if the settings are invalid.
    from integration.maintenance import doctor

    failed = False
    for line in doctor.check_installation(settings):
        _print_line(line.level, str(line))
        failed |= line.level == "fail"
    if failed:
        sys.exit(1)


def _print_line(level: str, line: str) -> None:
    """Print a line with its level in colour on a terminal."""
    click.echo(click.style(line[:5], fg=_COLOURS[level], bold=level != "ok") + line[5:])
