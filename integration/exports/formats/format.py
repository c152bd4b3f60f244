"""Interface of a file format for routes, jobs, pages and commands."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from integration.access.rights import has
from integration.catalogue.shapes import Resource
from integration.exports.columns import MEDIA_COLLECTIONS
from integration.exports.query import ChunkedFile, ExportQuery
from integration.exports.selection import OpenReader, Selection

if TYPE_CHECKING:
    from integration.access.people import Person


SEPARATORS = {",": "English (comma, 1.50)", ";": "German, French, Spanish … (semicolon, 1,50)"}
"""Separators of CSV by the languages of Excel that expect them."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream.

    CSV: `bom` adds a byte order mark, `separator` is one of SEPARATORS. `data_dir` contains the archive.
    `threads` may compute the file beside the thread that reads it: a process that serves users has better use
    for its processors.
    """

    data_dir: Path
    bom: bool = False
    separator: str = ","
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    """File format of exports.

    `suffix` is its name and the file suffix; `label` and `hint` are shown on pages. `write` prepares
    selections of more than `background_above` rows in the background. `order` is the position on pages,
    `package` an optional Python package that the format requires, `right` a right required in addition to
    “export”. `for_media` limits the format to collections with files. `has_month_sets`: a data set may have
    one file per month (`--partition-by month`).
    """

    suffix: str
    mime: str
    label: str
    hint: str
    stream: Callable[[OpenReader, Selection, StreamOptions], ChunkedFile]
    order: int
    background_above: int | None = None
    write: Callable[[sqlite3.Connection, ExportQuery, Selection, IO[bytes]], object] | None = None
    has_month_sets: bool = False
    package: str | None = None
    right: str | None = None
    for_media: bool = False

    def is_available(self, resource: Resource, person: Person) -> bool:
        """Return whether the format is available to `person` for `resource`.

        It must be installed, support the resource and be permitted to the user.
        """
        return (
            (self.package is None or find_spec(self.package) is not None)
            and (not self.for_media or resource.collection in MEDIA_COLLECTIONS)
            and (self.right is None or has(person, self.right))
        )
