"""`switchroom backup`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from integration.cli import _progress as _show
from integration.cli import config_option
from integration.settings.model import load


@click.command(
    "backup",
    help="Copy databases, recordings and voicemail into a new folder below DEST, beside a running `serve`."
    " Prints the folder's path. Files of the archive are linked, not copied, where DEST is on the same"
    " filesystem.",
)
@click.argument("dest", type=click.Path(path_type=Path, file_okay=False))
@config_option
def command(dest: Path, config: Path | None) -> None:
    from integration.maintenance import backup

    settings = load(config, os.environ)
    with _show.progress() as progress:
        made = backup.make(settings.storage.data_dir, dest, progress)
    for note in made.notes:
        _show.say(note)
    linked = f", {made.linked:,} of them linked" if made.linked else ""
    _show.say(f"{made.files:,} files, {made.bytes / 1e6:,.1f} MB{linked}")
    click.echo(made.path)
