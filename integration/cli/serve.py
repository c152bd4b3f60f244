"""`switchroom serve`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from integration.cli import config_option
from integration.settings.model import load


@click.command(
    "serve",
    help="Run the webhook receiver, the scheduler, the dashboard and the REST facade."
    " Stops cleanly on SIGTERM and SIGINT.",
)
@config_option
def command(config: Path | None) -> None:
    settings = load(config, os.environ)
    # Not at the top: Granian is only needed once the settings are right.
    from integration.server import supervisor

    supervisor.serve(settings)
