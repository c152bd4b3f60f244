"""What the platform's dictionaries say its codes mean."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.json_records import read_object

_CODE = ("id", "code", "value", "key")
_WORD = ("name", "label", "title", "description", "text")
_ABOUT = ("dictionary", "property", "field", "type", "group")

Labels = Mapping[str, Mapping[str, str]]
"""By field name, by code as text: the word for it."""


def labels(connection: sqlite3.Connection, resource: Resource) -> Labels:
    """What `/<collection>/dictionaries` says about the codes of `resource`; empty where it isn't mirrored.

    The specification shows only that it answers with a collection. Read are records that name a field and
    one of its codes, and objects of field → codes, the codes a list of such records or an object.
    """
    table = f"{resource.table}_dictionaries"
    there = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if there is None:
        return {}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(f'SELECT _doc FROM "{table}" WHERE _missing_since IS NULL'):
        _learn(read_object(row["_doc"]).values, found)
    return found


def _learn(entry: dict[str, Any], found: dict[str, dict[str, str]]) -> None:
    name = _first(entry, _ABOUT)
    code, word = _first(entry, _CODE), _first(entry, _WORD)
    if name is not None and code is not None and word is not None and code != name:
        found[name][code] = word
        return
    for field, codes in entry.items():
        pairs = codes.items() if isinstance(codes, dict) else codes if isinstance(codes, list) else ()
        target = name if name is not None and field in ("values", "items", "data", "options") else field
        for pair in pairs:
            if isinstance(pair, tuple) and not isinstance(pair[1], dict | list):
                found[target][str(pair[0])] = str(pair[1])
            elif isinstance(pair, dict):
                code, word = _first(pair, _CODE), _first(pair, _WORD)
                if code is not None and word is not None:
                    found[target][code] = word


def _first(entry: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        value = entry.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    return None
