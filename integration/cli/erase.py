"""`switchroom erase NUMBER`: a person asks to be forgotten."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from integration.cli import config_option, guarded
from integration.cli.user import show_table
from integration.core.phone_numbers import Numbers
from integration.maintenance import backup
from integration.privacy import erase as erasing
from integration.server.run_command import carry_out
from integration.settings.model import Settings, load


@click.command(
    "erase",
    help="Show what is known of a telephone number; with --yes erase it everywhere here, for good. Calls stay"
    " counted, without the number, names, words and sound of it.",
)
@click.argument("number")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is changed.")
@config_option
@guarded
def command(number: str, yes: bool, config: Path | None) -> None:
    settings = load(config, os.environ)
    e164 = number_of(settings, number)
    if not yes:
        _show(settings, e164)
        return
    result = carry_out(
        settings,
        erasing.ERASE,
        {"number": e164},
        lambda facts: click.echo(facts.get("doing", ""), err=True),
        lambda line: click.echo(line, err=True),
    )
    _table(result["removed"])
    click.echo(f"erasure {result['erasure']}: " + ("not all of it is gone" if result["left"] else "done"))
    for name, places in result["left"].items():
        click.echo(
            f"{name} still has the digits in {places:,} places; stop other readers, then again", err=True
        )
    _elsewhere(result["backups"])
    sys.exit(1 if result["left"] else 0)


def number_of(settings: Settings, text: str) -> str:
    """In E.164 form. Raises click.BadParameter."""
    e164 = Numbers(settings.dashboard.country).e164(text)
    if e164 is None:
        raise click.BadParameter(
            f"{text!r} is no telephone number; write it with its country, such as +442079460001"
        )
    return e164


def _show(settings: Settings, e164: str) -> None:
    traces, why = erasing.survey(settings.storage.data_dir, e164)
    _table(traces.counts)
    if not traces.counts:
        click.echo("nothing is known of this number")
    elif why is None:
        click.echo("Nothing was changed. With --yes this is erased for good.")
    if why is not None:
        click.echo(f"switchroom: {why}", err=True)
        sys.exit(1)
    _elsewhere(sorted(path.name for path in backup.destination(settings).glob(backup.NAMES)))


def _table(counts: dict[str, int]) -> None:
    show_table([("WHAT", "NUMBER"), *((what, f"{number:,}") for what, number in counts.items())])


def _elsewhere(backups: list[str]) -> None:
    """What is out of reach, so that nobody takes it for erased."""
    click.echo("Not reached from here: the platform's own records, exports that left, mail.", err=True)
    if backups:
        click.echo(
            f"{len(backups)} backups from before hold it until they are removed: {', '.join(backups)}",
            err=True,
        )
