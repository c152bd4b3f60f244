"""`switchroom catalogue`."""

from __future__ import annotations

import sys
from dataclasses import astuple

import click


@click.command(
    "catalogue", help="Print every operation of the platform's specification with what is done with it here."
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
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*operations_table.HEADER, row_styles=("", "dim"))
        for row in rows:
            table.add_row(*(Text(cell) for cell in astuple(row)))
        Console().print(table)
    else:
        click.echo(operations_table.format_text(rows))
