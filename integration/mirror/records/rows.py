"""Types and SQL names shared by modules that handle collection tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from integration.catalogue.shapes import Resource
from integration.core.json_records import JsonRecord

Source = Literal["webhook", "sync", "write", "read"]
"""Value of the column `_source`."""
Key = int | str
"""Primary key of a collection's table."""


@dataclass(slots=True)
class UpsertResult:
    """Result of an upsert.

    `inserted`, `updated`: keys. `changed`: the records of both. `unchanged`, `outdated`, `flagged`: numbers
    of records.
    """

    inserted: list[Key] = field(default_factory=list)
    updated: list[Key] = field(default_factory=list)
    unchanged: int = 0
    outdated: int = 0
    flagged: int = 0
    changed: list[JsonRecord] = field(default_factory=list)


def quote_identifier(identifier: str) -> str:
    """Return a column or table name, quoted for SQL.

    Pass names of the catalogue only, never text of a request.
    """
    return '"' + identifier.replace('"', '""') + '"'


def build_name_sql(table: str) -> str:
    """Return SQL of the full name in a row of users or contacts; NULL without one."""
    return f"nullif(trim(coalesce({table}.first_name, '') || ' ' || coalesce({table}.last_name, '')), '')"


def get_key_type(resource: Resource) -> str:
    """Return the SQL type of the key column.

    TEXT if the specification types the key as a string, else INTEGER (64 bits).
    """
    key = resource.field(resource.key or "")
    return "TEXT" if key is not None and key.type == "string" else "INTEGER"
