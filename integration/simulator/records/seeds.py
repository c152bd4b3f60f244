"""Contents of the invented account (account.toml)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

SEEDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("account.toml").read_text("utf-8"))
COLLECTIONS: dict[str, dict[str, Any]] = SEEDS["collections"]
"""Facts and seeded records by collection."""

CODE_FIELDS = ("property", "id", "name")


def list_codes(collection: str) -> list[dict[str, Any]]:
    """List the records of `/<collection>/dictionaries`.

    Only the path is specified. Form and names are invented.
    """
    return [dict(zip(CODE_FIELDS, row, strict=True)) for row in COLLECTIONS[collection]["codes"]]


def list_code_values(collection: str, field: str) -> list[Any]:
    """List the codes of one field."""
    return [row["id"] for row in list_codes(collection) if row["property"] == field]
