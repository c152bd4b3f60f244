"""Command `switchroom upgrade --check`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from integration.cli import json_option, local_settings_option, print_json

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "upgrade",
    help="Show what a start of this version would change in data_dir, one line each. The exit status is 1 if"
    " it would change anything. `serve` may run. The upgrade itself is part of the next start.",
)
@click.option("--check", is_flag=True, help="Required: there is nothing else to do. Changes nothing.")
@json_option
@local_settings_option
def command(check: bool, as_json: bool, settings: Settings) -> None:
    if not check:
        raise click.UsageError("Add --check. A start of this version upgrades the data.")
    # Imported here because `--help` does not need it.
    from integration import __version__
    from integration.factory import MIGRATIONS
    from integration.maintenance import upgrade

    changes = upgrade.describe_changes(settings.storage.data_dir, MIGRATIONS)
    if as_json:
        print_json({"version": __version__, "changes": changes})
    else:
        for line in changes or [f"A start of Switchroom {__version__} changes nothing."]:
            click.echo(line)
    if changes:
        sys.exit(1)
