"""`switchroom hold`: keep what a dispute is about from retention and erasure."""

from __future__ import annotations

import os
from pathlib import Path

import click

from integration.cli import config_option, guarded
from integration.cli.erase import number_of
from integration.cli.user import show_table
from integration.privacy import hold_commands as holding
from integration.privacy import holds
from integration.server.run_command import carry_out
from integration.settings.model import Settings, load
from integration.sqlite.beside import Beside


@click.command(
    "hold",
    help="Put a call (by its id) or all that names a telephone number under legal hold: retention spares it,"
    " and it can't be erased until the hold is released.",
)
@click.argument("what", required=False)
@click.option("--reason", help="Why; needed to set a hold.")
@click.option("--release", is_flag=True, help="End the hold on it.")
@click.option("--list", "listed", is_flag=True, help="List the holds in force.")
@config_option
@guarded
def command(what: str | None, reason: str | None, release: bool, listed: bool, config: Path | None) -> None:
    if (listed, release, reason is not None).count(True) != 1 or (what is None) != listed:
        raise click.UsageError("give WHAT with --reason or with --release, or --list alone")
    settings = load(config, os.environ)
    if what is None:
        _list(settings)
        return
    kind, subject = _subject(settings, what)
    carry_out(
        settings,
        holding.RELEASE if release else holding.SET,
        {"kind": kind, "what": subject, "reason": reason},
        on_notice=lambda line: click.echo(line, err=True),
    )
    click.echo(f"{kind} {subject} is {'no longer' if release else 'now'} under legal hold", err=True)


def _subject(settings: Settings, what: str) -> tuple[holds.Kind, str]:
    """A call's id is digits alone, and a number has a plus or begins with 0: no call's id does."""
    if what.isascii() and what.isdigit() and not what.startswith("0"):
        return "call", what
    return "number", number_of(settings, what)


def _list(settings: Settings) -> None:
    house = Beside(settings.storage.data_dir / "house.db")
    rows = [("WHAT", "KIND", "SINCE", "BY", "REASON")]
    if house.exists:
        with house.read() as connection:
            rows += [(one.what, one.kind, one.at, one.who, one.reason) for one in holds.all_of(connection)]
    show_table(rows)
