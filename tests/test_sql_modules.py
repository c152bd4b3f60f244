"""SQL is executed only in packages that store data or compose exports."""

from __future__ import annotations

import ast
from pathlib import Path

import integration
from integration import app_schema

ROOT = Path(integration.__file__).parent
PACKAGES = {"mirror", "workspace", "events", "inbox", "privacy", "maintenance", "exports", "sqlite"}
FILES = {"app_schema.py", "server/tenant.py"} | {
    f"{owner.__name__.removeprefix('integration.').replace('.', '/')}.py"
    for owner in app_schema.TABLE_MODULES
}
"""Further files with SQL.

They own or create tables of house.db, or bind a data directory to its account.
"""
EXECUTORS = {"execute", "executemany", "executescript"}


def test_only_one_module_opens_databases_read_only() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "mode" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "?mode=ro" in node.value
    ]
    assert found == ["sqlite/readers.py"]


def test_only_these_packages_and_files_execute_sql() -> None:
    found = []
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT)
        text = path.read_text()
        if place.parts[0] not in PACKAGES and str(place) not in FILES and "execute" in text:
            found += [
                f"{place}:{node.lineno}"
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Attribute) and node.attr in EXECUTORS
            ]
    assert found == []
