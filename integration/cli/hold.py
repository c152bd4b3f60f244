"""Command `switchroom hold`: protect records from retention and erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from integration.cli import exit_on_error, json_option, local_settings_option, print_list
from integration.cli.console import print_message, run_in_writer
from integration.cli.erase import parse_number
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "hold",
    help="Set a legal hold on WHAT: a call id, or a telephone number with all its records. Retention and"
    " erasure do not remove them until the hold is released.",
)
@click.argument("what", required=False)
@click.option("--reason", help="Set a hold for this reason.")
@click.option("--release", is_flag=True, help="Release the hold.")
@click.option("--list", "listed", is_flag=True, help="List the holds in force.")
@json_option
@exit_on_error
@local_settings_option
def command(
    what: str | None, reason: str | None, release: bool, listed: bool, as_json: bool, settings: Settings
) -> None:
    if (listed, release, reason is not None).count(True) != 1 or (what is None) != listed:
        raise click.UsageError("Use WHAT with --reason or --release, or --list without WHAT.")
    if as_json and not listed:
        raise click.UsageError("--json requires --list.")
    if what is None:
        _print_holds(settings, as_json=as_json)
        return
    # Imported here, because it imports the mirror.
    from integration.privacy import holds

    kind, subject = holds.parse_subject(what, lambda text: parse_number(settings, text))
    arguments = {"kind": kind, "what": subject, "reason": reason}
    run_in_writer(settings, "hold.release" if release else "hold.set", arguments)
    print_message(f"{kind} {subject} is {'no longer' if release else 'now'} under legal hold")


def _print_holds(settings: Settings, *, as_json: bool) -> None:
    from integration.privacy import holds

    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    stored = []
    if app_db.exists:
        with app_db.read() as connection:
            stored = holds.list_all(connection)
    rows = ((one.what, one.kind, one.at, one.who, one.reason) for one in stored)
    print_list("holds", ("what", "kind", "since", "by", "reason"), rows, as_json)
