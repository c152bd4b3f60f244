"""`switchroom verify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from integration.cli import _show, config_option
from integration.settings import load


@click.command(
    "verify",
    help="Check the databases, every file of the archive and whether all webhooks were applied, beside a"
    " running `serve`. Prints a line for each finding; exit status 1 if there is any.",
)
@click.option("--quick", is_flag=True, help="Look only at the sizes of files, not at their content.")
@config_option
def command(quick: bool, config: Path | None) -> None:
    from integration.upkeep.verify import Verification

    settings = load(config, os.environ)
    found = 0
    with _show.progress() as progress:
        verification = Verification(settings.storage.data_dir, quick=quick, progress=progress)
        for finding in verification.findings():
            found += 1
            click.echo(finding)
    for note in verification.notes:
        _show.say(note)
    _show.say(f"{verification.files:,} files checked, {found:,} {'finding' if found == 1 else 'findings'}")
    if found:
        sys.exit(1)
