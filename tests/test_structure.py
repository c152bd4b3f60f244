"""Small folders, files of one noun, no private names across files."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.harness import ROOT

MAX_FILES = 20
"""Python files in one folder, `__init__.py` and `conftest.py` included."""
MAX_LINES = 400
DECLARATIONS = {"integration/catalogue/account_settings.py"}
"""Pure tables of the platform's resources and operations may be longer."""


@pytest.fixture(scope="module")
def python_files() -> list[Path]:
    paths = (path for folder in ("integration", "tests") for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in paths)


def test_no_folder_has_more_python_files_than_a_reader_can_scan(python_files: list[Path]) -> None:
    counts = Counter(str(path.parent) for path in python_files)
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_no_python_file_is_longer_than_one_noun_needs(python_files: list[Path]) -> None:
    lengths = {str(path): len((ROOT / path).read_text().splitlines()) for path in python_files}
    too_long = {path: length for path, length in lengths.items() if length > MAX_LINES}
    assert {path: length for path, length in too_long.items() if path not in DECLARATIONS} == {}


def test_no_file_imports_a_private_name(python_files: list[Path]) -> None:
    found = [
        f"{path}:{node.lineno} {alias.name}"
        for path in python_files
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("integration", "tests"))
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    # The folder of the commands lists what is a command: `_progress` is none.
    assert [line for line in found if not line.endswith(" _progress")] == []
