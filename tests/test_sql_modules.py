"""Who may speak SQL: what holds data, and what composes exports."""

from __future__ import annotations

import ast
from pathlib import Path

import integration
from integration import app_schema

ROOT = Path(integration.__file__).parent
ROOMS = {"mirror", "workspace", "inbox", "privacy", "maintenance", "exports", "sqlite"}
FILES = {"app_schema.py", "server/tenant.py"} | {
    f"{owner.__name__.removeprefix('integration.').replace('.', '/')}.py"
    for owner in app_schema.TABLE_MODULES
}
"""Elsewhere: what owns and what creates tables of house.db, and what ties a data directory to its account."""
SPEAKS = {"execute", "executemany", "executescript"}


def test_only_one_module_opens_databases_read_only() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "mode" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "?mode=ro" in node.value
    ]
    assert found == ["sqlite/readers.py"]


def test_sql_stands_only_where_the_data_does() -> None:
    found = []
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT)
        text = path.read_text()
        if place.parts[0] not in ROOMS and str(place) not in FILES and "execute" in text:
            found += [
                f"{place}:{node.lineno}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Attribute) and node.attr in SPEAKS
            ]
    assert found == []
