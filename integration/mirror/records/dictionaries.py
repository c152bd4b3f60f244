"""Labels of codes, from the platform's dictionaries."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from integration.catalogue.shapes import Resource
from integration.core.json_records import read_record

_CODE_FIELDS = ("id", "code", "value", "key")
_LABEL_FIELDS = ("name", "label", "title", "description", "text")
_TARGET_FIELDS = ("dictionary", "property", "field", "type", "group")

Labels = Mapping[str, Mapping[str, str]]
"""Field name → code as text → label."""


def load_labels(connection: sqlite3.Connection, resource: Resource) -> Labels:
    """Return the labels in `/<collection>/dictionaries` of `resource`.

    Empty if the dictionaries are not mirrored. The specification documents only that the response is a
    collection. Two forms are read: records with a field name and one of its codes, and objects that map a
    field to its codes, as a list of such records or as an object.
    """
    table = f"{resource.table}_dictionaries"
    table_row = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if table_row is None:
        return {}
    labels: dict[str, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(f'SELECT _doc FROM "{table}" WHERE _missing_since IS NULL'):
        _collect_labels(read_record(row["_doc"]).values, labels)
    return labels


def _collect_labels(entry: dict[str, Any], labels: dict[str, dict[str, str]]) -> None:
    name = _find_first_value(entry, _TARGET_FIELDS)
    code, label = _find_first_value(entry, _CODE_FIELDS), _find_first_value(entry, _LABEL_FIELDS)
    if name is not None and code is not None and label is not None and code != name:
        labels[name][code] = label
        return
    for field, codes in entry.items():
        pairs = codes.items() if isinstance(codes, dict) else codes if isinstance(codes, list) else ()
        target = name if name is not None and field in ("values", "items", "data", "options") else field
        for pair in pairs:
            if isinstance(pair, tuple) and not isinstance(pair[1], dict | list):
                labels[target][str(pair[0])] = str(pair[1])
            elif isinstance(pair, dict):
                code, label = _find_first_value(pair, _CODE_FIELDS), _find_first_value(pair, _LABEL_FIELDS)
                if code is not None and label is not None:
                    labels[target][code] = label


def _find_first_value(entry: Mapping[str, Any], names: Iterable[str]) -> str | None:
    for name in names:
        value = entry.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    return None
