"""Command `switchroom serve`."""

from __future__ import annotations

import click

from integration.cli import settings_option
from integration.settings.model import Settings


@click.command(
    "serve",
    help="Run the webhook receiver, the scheduler, the dashboard and the REST facade."
    " Stops cleanly on SIGTERM and SIGINT.",
)
@settings_option
def command(settings: Settings) -> None:
    # Imported here because Granian is needed only with valid settings.
    from integration.server import supervisor

    supervisor.serve(settings)
