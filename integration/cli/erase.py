"""Command `switchroom erase NUMBER`: erase the data of a person."""

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
    help="Show the stored data of a telephone number; with --yes erase it permanently. Calls are still"
    " counted, but without the number, names, texts and recordings.",
)
@click.argument("number")
@click.option("--yes", is_flag=True, help="Erase the number. Without this option nothing is changed.")
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
    click.echo(f"erasure {result['erasure']}: " + ("incomplete" if result["left"] else "done"))
    for name, places in result["left"].items():
        click.echo(
            f"{name} still contains the digits in {places:,} places. Stop other programs that read it, then"
            " repeat the command.",
            err=True,
        )
    _print_not_erased(result["backups"])
    sys.exit(1 if result["left"] else 0)


def parse_number(settings: Settings, text: str) -> str:
    """Return the number in E.164. Raise click.BadParameter for an invalid one."""
    e164 = PhoneNumbers(settings.dashboard.country).to_e164(text)
    if e164 is None:
        raise click.BadParameter(
            f"{text!r} is not a telephone number. Write it with its country code, such as +442079460001."
        )
    return e164


def _print_traces(settings: Settings, e164: str) -> None:
    traces, refusal = erase.preview(settings.storage.data_dir, e164)
    _print_counts(traces.counts)
    if not traces.counts:
        click.echo("no data of this number is stored")
    elif refusal is None:
        click.echo("Nothing was changed. With --yes this data is erased permanently.")
    if refusal is not None:
        click.echo(f"switchroom: {refusal}", err=True)
        sys.exit(1)
    _print_not_erased(
        sorted(path.name for path in backup.get_destination(settings).glob(backup.BACKUP_NAME_PATTERN))
    )


def _print_counts(counts: dict[str, int]) -> None:
    print_table([("WHAT", "NUMBER"), *((kind, f"{number:,}") for kind, number in counts.items())])


def _print_not_erased(backups: list[str]) -> None:
    """Print the places that an erasure does not reach."""
    click.echo("Not erased: records on the platform, delivered exports, sent e-mails.", err=True)
    if backups:
        click.echo(
            f"{len(backups)} existing backups and damaged databases may contain the number until they are"
            f" removed: {', '.join(backups)}",
            err=True,
        )
