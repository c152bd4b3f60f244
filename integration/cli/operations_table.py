"""`catalogue`: every operation of the platform with what we do with it."""

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
    "grows": "look-back and complete walk",
    "settings": "read whole, often",
    "single": "read often",
    "live": "webhooks and polls",
    "dictionary": "read whole, hourly",
}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation. `facade`: how ours answers it; `mirror`: how its records are kept here, '' where the
    operation does not read any."""

    module: str
    method: str
    path: str
    answers: str
    facade: str
    mirror: str
    about: str


def list_rows() -> list[OperationRow]:
    """Every operation in the specification's order."""
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
    return "not yet" if read_resource.is_listed else ""


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
