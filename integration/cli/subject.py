"""Command `switchroom subject NUMBER --out FOLDER`: one person's data as a ZIP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from integration.cli import exit_on_error, json_option, local_settings_option, print_json, print_table
from integration.cli.console import print_message
from integration.cli.erase import parse_number
from integration.cli.export import audit_export
from integration.core.errors import StorageError

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "subject",
    help="Write all stored data of a telephone number to a ZIP, for the person who has the number. Changes"
    " nothing but the audit log.",
)
@click.argument("number")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    required=True,
    help="Folder for the file, outside data_dir.",
)
@click.option(
    "--show-others",
    is_flag=True,
    help="Include numbers and names of other persons. Without this option they are hidden in all text files.",
)
@json_option
@exit_on_error
@local_settings_option
def command(number: str, folder: Path, show_others: bool, as_json: bool, settings: Settings) -> None:
    e164 = parse_number(settings, number)
    data_dir = settings.storage.data_dir
    if folder.resolve().is_relative_to(data_dir.resolve()):
        raise click.BadParameter(
            f"{folder} is inside {data_dir}. Choose a folder outside, so that an erasure need not delete it.",
            param_hint="--out",
        )
    # Imported here, because it imports most of the product.
    from integration.core import atomic_files
    from integration.privacy.subject_file import write_subject_file

    path = folder / f"data-of-{e164.removeprefix('+')}.zip"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_files.open_atomic(path) as file:
            counts = write_subject_file(settings, e164, file, shows_others=show_others)
            audit_export(settings, "data of a number", sum(counts.values()))
    except OSError as error:
        raise StorageError(f"The file {path} cannot be written: {error.strerror}.") from error
    if as_json:
        print_json({"number": e164, "file": str(path), "stored": counts})
        return
    print_table([("WHAT", "NUMBER"), *((kind, f"{count:,}") for kind, count in counts.items())])
    print_message(f"written: {path}")
