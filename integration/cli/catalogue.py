"""Command `switchroom catalogue`."""

from __future__ import annotations

import sys
from dataclasses import asdict, astuple

import click

from integration.cli import json_option, print_json, print_table


@click.command(
    "catalogue", help="Print every operation of the platform's specification and how Switchroom handles it."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "markdown", "openapi"]),
    default="table",
    show_default=True,
    help="openapi: the document of the REST API.",
)
@json_option
def command(form: str, as_json: bool) -> None:
    from integration.cli.console import operations_table

    if form == "openapi":
        _print_openapi_document()
        return
    rows = operations_table.list_rows()
    if as_json:
        print_json({"operations": [asdict(row) for row in rows]})
    elif form == "csv":
        click.echo(operations_table.format_csv(rows))
    elif form == "markdown":
        click.echo(operations_table.format_markdown(rows))
    else:
        # Omit the long descriptions if the output is not a terminal.
        end = None if sys.stdout.isatty() else -1
        print_table([operations_table.HEADER[:end], *(astuple(row)[:end] for row in rows)])


def _print_openapi_document() -> None:
    from integration.facade.openapi.document import build_document
    from integration.settings.user_sections import Facade

    defaults = Facade()
    print_json(build_document(defaults.base_paths, defaults.max_limit))
