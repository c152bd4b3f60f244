"""Small folders, files of one noun, no private names across files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.harness import ROOT

MAX_FILES = 20
"""Python files in one folder, `__init__.py` and `conftest.py` included."""
MAX_LINES = 400

LOCAL_IMPORT = re.compile(r"^ *from (?:integration|tests)[\w.]* import (\([^)]*\)|.*)$", re.M)
PRIVATE_NAME = re.compile(r"(?<![\w.])(?<! as )_[A-Za-z]\w*")
# Patterns, because parsing all files takes 5 s.


@pytest.fixture(scope="module")
def python_files() -> list[Path]:
    paths = (path for folder in ("integration", "tests") for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in paths)


def test_no_folder_has_more_python_files_than_a_reader_can_scan(python_files: list[Path]) -> None:
    counts = Counter(str(path.parent) for path in python_files)
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_no_python_file_is_longer_than_one_noun_needs(python_files: list[Path]) -> None:
    lengths = {str(path): len((ROOT / path).read_text().splitlines()) for path in python_files}
    assert {path: length for path, length in lengths.items() if length > MAX_LINES} == {}


def test_no_file_imports_a_private_name(python_files: list[Path]) -> None:
    found = [
        f"{path}: {name}"
        for path in python_files
        for names in LOCAL_IMPORT.findall((ROOT / path).read_text())
        for name in PRIVATE_NAME.findall(names)
    ]
    # The folder of the commands lists what is a command: `_progress` is none.
    assert [line for line in found if not line.endswith(" _progress")] == []


def test_the_simulator_has_no_type_only_imports(python_files: list[Path]) -> None:
    # The contract on its layers does not see imports under TYPE_CHECKING.
    files = [path for path in python_files if path.is_relative_to("integration/simulator")]
    assert [str(path) for path in files if "TYPE_CHECKING" in (ROOT / path).read_text()] == []
