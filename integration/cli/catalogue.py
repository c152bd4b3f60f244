"""Command `switchroom catalogue`."""

from __future__ import annotations

import sys
from dataclasses import astuple

import click

from integration.cli import print_table


@click.command(
    "catalogue", help="Print every operation of the platform's specification and how Switchroom handles it."
)
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "markdown"]), default="table", show_default=True
)
def command(form: str) -> None:
    from integration.cli import operations_table

    rows = operations_table.list_rows()
    if form == "csv":
        click.echo(operations_table.format_csv(rows))
    elif form == "markdown":
        click.echo(operations_table.format_markdown(rows))
    else:
        # Omit the long descriptions if the output is not a terminal.
        end = None if sys.stdout.isatty() else -1
        print_table([operations_table.HEADER[:end], *(astuple(row)[:end] for row in rows)])
