"""`catalogue`: every operation of the platform with what we do with it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from integration.catalogue import OPERATIONS, resource
from integration.catalogue.shapes import Operation
from integration.facade.exposure import EXPOSURE
from integration.sync.plan import PLAN

HEAD = ("module", "method", "path", "answers", "facade", "mirror", "about")

_KEPT = {
    "grows": "look-back and complete walk",
    "settings": "read whole, often",
    "single": "read often",
    "live": "webhooks and polls",
    "dictionary": "read whole, hourly",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One operation. `facade`: how ours answers it; `mirror`: how its records are kept here, '' where the
    operation does not read any."""

    module: str
    method: str
    path: str
    answers: str
    facade: str
    mirror: str
    about: str


def rows() -> list[Row]:
    """Every operation in the specification's order."""
    return [
        Row(
            operation.module,
            operation.method,
            operation.path,
            operation.answer,
            EXPOSURE[operation.name].value,
            _kept(operation),
            operation.about,
        )
        for operation in OPERATIONS
    ]


def _kept(operation: Operation) -> str:
    if operation.method != "GET" or operation.resource is None:
        return ""
    read = resource(operation.resource)
    policy = PLAN.get(read.collection)
    if policy is not None:
        return _KEPT[policy.kind]
    return "not yet" if read.listed else ""


def as_text(found: Iterable[Row]) -> str:
    """Columns of equal width, the description left out, for a screen or `grep`."""
    lines = [HEAD[:-1], *(astuple(row)[:-1] for row in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD) - 1)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_csv(found: Iterable[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(astuple(row) for row in found)
    return out.getvalue().removesuffix("\n")


def as_markdown(found: Iterable[Row]) -> str:
    lines = [HEAD, tuple("---" for _ in HEAD)]
    lines += [tuple(_cell(text) for text in astuple(row)) for row in found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
