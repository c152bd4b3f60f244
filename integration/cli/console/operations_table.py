"""Table of command `catalogue`: platform operations and their handling by Switchroom."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from integration.catalogue import OPERATIONS, get_resource
from integration.catalogue.shapes import Operation
from integration.facade.exposure import EXPOSURE
from integration.sync.plan import PLAN

HEADER = ("module", "method", "path", "answers", "facade", "mirror", "about")

_SYNC_DESCRIPTIONS = {
    "grows": "incremental and full sync",
    "settings": "frequent full sync",
    "single": "frequent request",
    "live": "webhooks and live polls",
    "dictionary": "hourly full sync",
}
"""Texts of column `mirror` by kind of sync."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """A row of the table.

    `answers` is the kind of response, `facade` its source in the facade, `mirror` the sync of its collection,
    '' for operations that read no collection.
    """

    module: str
    method: str
    path: str
    answers: str
    facade: str
    mirror: str
    about: str


def list_rows() -> list[OperationRow]:
    """Return all operations in the order of the specification."""
    return [
        OperationRow(
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
    if operation.method != "GET" or operation.resource is None:
        return ""
    read_resource = get_resource(operation.resource)
    policy = PLAN.get(read_resource.collection)
    if policy is not None:
        return _SYNC_DESCRIPTIONS[policy.kind]
    return "not mirrored" if read_resource.is_listed else ""


def format_csv(operation_rows: Iterable[OperationRow]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(astuple(row) for row in operation_rows)
    return buffer.getvalue().removesuffix("\n")


def format_markdown(operation_rows: Iterable[OperationRow]) -> str:
    lines = [HEADER, tuple("---" for _ in HEADER)]
    lines += [tuple(_escape_cell(text) for text in astuple(row)) for row in operation_rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
