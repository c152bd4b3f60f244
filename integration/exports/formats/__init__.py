"""Registry of the file formats of exports."""

from __future__ import annotations

from integration.access.people import Person
from integration.catalogue.shapes import Resource
from integration.exports.formats import csv, jsonl, parquet, xlsx
from integration.exports.formats import zip as media_zip
from integration.exports.formats.format import Format

FORMATS: dict[str, Format] = {
    entry.suffix: entry for entry in (csv.FORMAT, xlsx.FORMAT, parquet.FORMAT, jsonl.FORMAT, media_zip.FORMAT)
}
"""Formats by suffix, in the order of the command line."""


def list_available(resource: Resource, person: Person) -> list[Format]:
    """Return the formats in which `person` can export `resource`.

    They are in the order of the pages.
    """
    return [entry for entry in list_by_page_order() if entry.is_available(resource, person)]


def list_by_page_order() -> list[Format]:
    return sorted(FORMATS.values(), key=lambda entry: entry.order)
