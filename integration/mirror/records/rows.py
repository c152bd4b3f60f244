"""What the modules of the mirror share about rows of collection tables: names, keys, where they came from,
and what storing them did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord

Source = Literal["webhook", "sync", "write", "read"]
Key = int | str


@dataclass(slots=True)
class UpsertResult:
    """What an upsert did. `changed` holds the documents behind `inserted` and `updated`; `defer_calls`: their
    calls need not be put together at once."""

    inserted: list[Key] = field(default_factory=list)
    updated: list[Key] = field(default_factory=list)
    unchanged: int = 0
    outdated: int = 0
    flagged: int = 0
    changed: list[JsonRecord] = field(default_factory=list)
    defer_calls: bool = False


def quote_identifier(identifier: str) -> str:
    """A column or table name of the catalogue, quoted. Names come from the catalogue only."""
    return '"' + identifier.replace('"', '""') + '"'


def get_key_type(resource: Resource) -> str:
    """TEXT where the specification types the key as a string, else INTEGER (64 bits)."""
    key = resource.field(resource.key or "")
    return "TEXT" if key is not None and key.type == "string" else "INTEGER"
