"""`switchroom erase NUMBER`: a person asks to be forgotten."""

from __future__ import annotations

import sys

import click

from integration.cli import exit_on_error, print_table, settings_option
from integration.core.phone_numbers import PhoneNumbers
from integration.maintenance import backup
from integration.privacy import erase
from integration.server.run_command import run_command
from integration.settings.model import Settings


@click.command(
    "erase",
    help="Show what is known of a telephone number; with --yes erase it everywhere here, for good. Calls stay"
    " counted, without the number, names, words and sound of it.",
)
@click.argument("number")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is changed.")
@exit_on_error
@settings_option
def command(number: str, yes: bool, settings: Settings) -> None:
    e164 = parse_number(settings, number)
    if not yes:
        _print_traces(settings, e164)
        return
    result = run_command(
        settings,
        "number.erase",
        {"number": e164},
        lambda state: click.echo(state.get("doing", ""), err=True),
        lambda notice: click.echo(notice, err=True),
    )
    _print_counts(result["removed"])
    click.echo(f"erasure {result['erasure']}: " + ("not all of it is gone" if result["left"] else "done"))
    for name, places in result["left"].items():
        click.echo(
            f"{name} still has the digits in {places:,} places; stop other readers, then again", err=True
        )
    _print_not_erased(result["backups"])
    sys.exit(1 if result["left"] else 0)


def parse_number(settings: Settings, text: str) -> str:
    """In E.164 form. Raises click.BadParameter."""
    e164 = PhoneNumbers(settings.dashboard.country).to_e164(text)
    if e164 is None:
        raise click.BadParameter(
            f"{text!r} is no telephone number; write it with its country, such as +442079460001"
        )
    return e164


def _print_traces(settings: Settings, e164: str) -> None:
    traces, refusal = erase.preview(settings.storage.data_dir, e164)
    _print_counts(traces.counts)
    if not traces.counts:
        click.echo("nothing is known of this number")
    elif refusal is None:
        click.echo("Nothing was changed. With --yes this is erased for good.")
    if refusal is not None:
        click.echo(f"switchroom: {refusal}", err=True)
        sys.exit(1)
    _print_not_erased(
        sorted(path.name for path in backup.get_destination(settings).glob(backup.BACKUP_NAME_PATTERN))
    )


def _print_counts(counts: dict[str, int]) -> None:
    print_table([("WHAT", "NUMBER"), *((kind, f"{number:,}") for kind, number in counts.items())])


def _print_not_erased(backups: list[str]) -> None:
    """What is out of reach, so that nobody takes it for erased."""
    click.echo("Not reached from here: the platform's own records, exports that left, mail.", err=True)
    if backups:
        click.echo(
            f"{len(backups)} backups from before hold it until they are removed: {', '.join(backups)}",
            err=True,
        )
