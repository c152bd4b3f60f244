"""Command `switchroom erase NUMBER`: erase the data of a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from integration.cli import exit_on_error, json_option, local_settings_option, print_json, print_table
from integration.cli.console import run_in_writer

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.command(
    "erase",
    help="Show the stored data of a telephone number; with --yes erase it permanently. Calls are still"
    " counted, but without the number, names, texts and recordings.",
)
@click.argument("number")
@click.option("--yes", is_flag=True, help="Erase the number. Without this option nothing is changed.")
@json_option
@exit_on_error
@local_settings_option
def command(number: str, yes: bool, as_json: bool, settings: Settings) -> None:
    e164 = parse_number(settings, number)
    if not yes:
        _print_report(settings, e164, as_json=as_json)
        return
    result = run_in_writer(settings, "number.erase", {"number": e164})
    is_incomplete = bool(result["left"] or result["possibly_left"] or result["held_copies"])
    if as_json:
        print_json({"number": e164, **{name: result[name] for name in RESULT_FIELDS}})
        sys.exit(int(is_incomplete))
    _print_counts(result["removed"])
    click.echo(f"erasure {result['erasure']}: " + ("incomplete" if result["left"] else "done"))
    for label, number in result["left"].items():
        click.echo(f"left: {number:,} {label}. Repeat the command.", err=True)
    _print_held(result["held"], result["held_copies"])
    for place in result["possibly_left"]:
        click.echo(f"possibly left: {place}", err=True)
    if result["possibly_left"]:
        click.echo(
            "The digits of the number occur in these places. Stop other programs that read the databases,"
            " repeat the command, and look at the places that remain.",
            err=True,
        )
    for name in result["removed_copies"]:
        click.echo(f"deleted, because it contained the number: {name}", err=True)
    _print_not_erased(result["backups"], result["delivered"])
    sys.exit(int(is_incomplete))


RESULT_FIELDS = (
    *("erasure", "removed", "left", "held", "held_copies", "possibly_left", "removed_copies"),
    *("backups", "delivered"),
)
"""Fields of the result that `erase --yes --json` prints."""


def parse_number(settings: Settings, text: str) -> str:
    """Return the number in E.164. Raise click.BadParameter for an invalid one."""
    from integration.core.phone_numbers import PhoneNumbers

    e164 = PhoneNumbers(settings.dashboard.country).to_e164(text)
    if e164 is None:
        raise click.BadParameter(
            f"{text!r} is not a telephone number. Write it with its country code, such as +442079460001."
        )
    return e164


def _print_report(settings: Settings, e164: str, *, as_json: bool) -> None:
    # Imported here, because it imports most of the product.
    from integration.privacy.erase import report_number

    report = report_number(settings, e164, lambda _step: None)
    if as_json:
        print_json(
            {
                "number": e164,
                "stored": report.counts,
                "held": report.held,
                "copies": list(report.copies),
                "backups": report.backups,
                "refusal": report.refusal,
            }
        )
        sys.exit(int(report.refusal is not None))
    _print_counts(report.counts)
    if not report.counts and not report.copies:
        click.echo("no data of this number is stored")
    elif report.refusal is None:
        click.echo("Nothing was changed. With --yes this data is erased permanently.")
    if report.refusal is not None:
        click.echo(f"switchroom: {report.refusal}", err=True)
        sys.exit(1)
    _print_held(report.held, [])
    for name, kind in report.copies.items():
        click.echo(f"deleted too with --yes ({kind}): {name}", err=True)
    _print_not_erased(report.backups, [])


def _print_held(held: dict[str, list[Any]], held_copies: list[str]) -> None:
    """Print the data that a legal hold protects from this erasure."""
    for label, keys in held.items():
        click.echo(f"kept under legal hold: {label} {', '.join(map(str, keys))}", err=True)
    for name in held_copies:
        click.echo(
            f"kept, because it contains the number and data under legal hold: {name}. Repeat the command"
            " after the hold is released.",
            err=True,
        )


def _print_counts(counts: dict[str, int]) -> None:
    print_table([("WHAT", "NUMBER"), *((kind, f"{number:,}") for kind, number in counts.items())])


def _print_not_erased(backups: list[str], delivered: list[str]) -> None:
    """Print the places that an erasure does not reach."""
    click.echo("Not erased: records on the platform, delivered exports, sent e-mails.", err=True)
    for name in delivered:
        click.echo(f"delivered export with the number: {name}", err=True)
    if backups:
        click.echo(
            f"{len(backups)} existing backups may contain the number until they are removed:"
            f" {', '.join(backups)}",
            err=True,
        )
