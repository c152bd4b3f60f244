"""Registry of the file formats of exports."""

from __future__ import annotations

from collections import ChainMap, UserDict
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.access.people import Person
    from integration.catalogue.shapes import Resource
    from integration.exports.formats.format import Format


class _Registry(UserDict[str, "Format"]):
    """Formats by suffix.

    The module of a format is imported on first use. XlsxWriter alone takes 20 ms, and `export --help` needs
    only the suffixes.
    """

    def __init__(self, *suffixes: str) -> None:
        super().__init__()
        self.data.update(dict.fromkeys(suffixes))  # type: ignore[arg-type]

    def __getitem__(self, suffix: str) -> Format:
        if self.data[suffix] is None:
            self.data[suffix] = import_module(f"{__name__}.{suffix}").FORMAT
        return self.data[suffix]


FORMATS = _Registry("csv", "xlsx", "parquet", "jsonl", "zip")
"""Formats by suffix, in the order of the command line. A format is the `FORMAT` of the module of its name."""

DIGEST = "digest"
SCHEDULED_FORMATS = ChainMap[str, "Format"](FORMATS, _Registry(DIGEST))
"""Formats of export jobs."""


def list_available(resource: Resource, person: Person) -> list[Format]:
    """Return the formats in which `person` can export `resource`.

    They are in the order of the pages.
    """
    return [entry for entry in list_by_page_order() if entry.is_available(resource, person)]


def list_by_page_order() -> list[Format]:
    return sorted(FORMATS.values(), key=lambda entry: entry.order)
