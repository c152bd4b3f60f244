"""Command `switchroom restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from integration.cli import console, json_option, local_settings_option, print_json

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "restore",
    help="Restore the backup SRC, a folder written by `backup`, into data_dir. Every file is checked before"
    " anything is changed. Refused while `serve` runs.",
)
@click.argument("src", type=click.Path(path_type=Path, file_okay=False))
@click.option("--replace", is_flag=True, help="Move the content of data_dir aside first. Nothing is deleted.")
@click.option(
    "--skip-damaged", is_flag=True, help="Omit damaged recordings and voicemail instead of failing."
)
@json_option
@local_settings_option
def command(src: Path, replace: bool, skip_damaged: bool, as_json: bool, settings: Settings) -> None:
    from integration.maintenance import restore

    data_dir = settings.storage.data_dir
    try:
        with console.show_progress() as report_progress:
            restored = restore.restore(
                src, data_dir, replace=replace, skip_damaged=skip_damaged, progress=report_progress
            )
    except restore.BackupDamaged as error:
        for finding in error.faults:
            console.print_message(finding)
        raise
    for line in restored.skipped_files:
        console.print_message(f"omitted: {line}")
    if restored.previous_data_dir is not None:
        console.print_message(
            f"The previous content is in {restored.previous_data_dir}. Remove it when you no longer need it."
        )
    if restored.has_archive:
        console.print_message(
            "Start `switchroom serve`: it fetches the records since the backup from the platform."
        )
    else:
        console.print_message(
            f"Start Switchroom {restored.version} now: it fetches the records since the upgrade from the"
            " platform. A start of a newer version upgrades the data again."
        )
    if as_json:
        previous = restored.previous_data_dir
        print_json(
            {
                "data_dir": str(data_dir),
                "files": restored.files,
                "backup_created_at": restored.backup_created_at,
                "omitted": list(restored.skipped_files),
                "previous_data_dir": None if previous is None else str(previous),
            }
        )
    else:
        click.echo(f"{data_dir}: {restored.files:,} files as of {restored.backup_created_at} UTC")
