"""Command `switchroom catalogue`."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from integration.cli import json_option, print_json, print_table

if TYPE_CHECKING:
    from integration.catalogue.shapes import Operation

HEADER = ("module", "method", "path", "answers", "facade", "mirror", "about")
"""Columns. `answers`: kind of response. `facade`: its source. `mirror`: sync of its collection."""

SYNC_DESCRIPTIONS = {
    "grows": "incremental and full sync",
    "settings": "frequent full sync",
    "single": "frequent request",
    "live": "webhooks and live polls",
    "dictionary": "hourly full sync",
}
"""Texts of column `mirror` by kind of sync."""


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
    if form == "openapi":
        _print_openapi_document()
        return
    rows = _list_rows()
    if as_json:
        print_json({"operations": [dict(zip(HEADER, row, strict=True)) for row in rows]})
    elif form == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([HEADER, *rows])
    elif form == "markdown":
        for row in (HEADER, ["---"] * len(HEADER), *rows):
            cells = [text.replace("|", "\\|") for text in row]
            click.echo(f"| {' | '.join(cells)} |")
    else:
        # Omit the long descriptions if the output is not a terminal.
        end = None if sys.stdout.isatty() else -1
        print_table([row[:end] for row in (HEADER, *rows)])


def _list_rows() -> list[tuple[str, ...]]:
    """Return all operations in the order of the specification."""
    from integration.catalogue import OPERATIONS
    from integration.facade.exposure import EXPOSURE

    return [
        (
            operation.module,
            operation.method,
            operation.path,
            operation.response_kind,
            EXPOSURE[operation.name].value,
            _describe_sync(operation),
            operation.about,
        )
        for operation in OPERATIONS
    ]


def _describe_sync(operation: Operation) -> str:
    """Return how the collection of an operation is synced, '' if it reads none."""
    from integration.catalogue import get_resource
    from integration.sync.plan import PLAN

    if operation.method != "GET" or operation.resource is None:
        return ""
    read_resource = get_resource(operation.resource)
    policy = PLAN.get(read_resource.collection)
    if policy is not None:
        return SYNC_DESCRIPTIONS[policy.kind]
    return "not mirrored" if read_resource.is_listed else ""


def _print_openapi_document() -> None:
    from integration.facade.openapi.document import build_document
    from integration.settings.model import Facade

    defaults = Facade()
    print_json(build_document(defaults.base_paths, defaults.max_limit))
