"""Command `switchroom backup`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from integration.cli import console, json_option, local_settings_option, print_json

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "backup",
    help="Copy databases, recordings and voicemail to a new folder below DEST. `serve` may run. Prints the"
    " path of the folder. If DEST is on the same filesystem, files of the archive are hard-linked instead of"
    " copied, unless --copy is given.",
)
@click.argument("dest", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--copy", "copies_files", is_flag=True, help="Copy the files of the archive; never hard-link them."
)
@json_option
@local_settings_option
def command(dest: Path, copies_files: bool, as_json: bool, settings: Settings) -> None:
    from integration.maintenance import backup

    with console.show_progress() as report_progress:
        result = backup.create(settings.storage.data_dir, dest, report_progress, copies_files=copies_files)
    if as_json:
        print_json(
            {
                "path": str(result.path),
                "files": result.files,
                "bytes": result.bytes,
                "hard_links": result.linked,
                "notes": list(result.notes),
            }
        )
        return
    for note in result.notes:
        console.print_message(note)
    linked_text = (
        f", {result.linked:,} of them hard links that share their bytes with the archive (--copy copies them)"
        if result.linked
        else ""
    )
    console.print_message(f"{result.files:,} files, {result.bytes / 1e6:,.1f} MB{linked_text}")
    click.echo(result.path)
