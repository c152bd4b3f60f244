"""Private names, imports of the simulator, wiring of test applications."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.harness import ROOT

LOCAL_IMPORT = re.compile(r"^ *from (?:integration|tests)[\w.]* import (\([^)]*\)|.*)$", re.M)
PRIVATE_NAME = re.compile(r"(?<![\w.])(?<! as )_[A-Za-z]\w*")
# Patterns, because parsing all files takes 5 s.

HAND_WIRING = re.compile(r"\b(Flask|AppContext|CallStore|guard\.install|make_stream|factory\.Product)\(")
"""Calls that only the factory makes, and calls of the factory."""
WIRED_APART = {
    "tests/support/application.py": "the one application of the tests",
    "tests/test_factory.py": "a test of the factory",
    "tests/test_structure.py": "the example below",
}


def find_hand_wiring(text: str) -> list[str]:
    return HAND_WIRING.findall(text)


@pytest.fixture(scope="module")
def python_files() -> list[Path]:
    paths = (path for folder in ("integration", "tests") for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in paths)


def test_no_file_imports_a_private_name(python_files: list[Path]) -> None:
    found = [
        f"{path}: {name}"
        for path in python_files
        for names in LOCAL_IMPORT.findall((ROOT / path).read_text())
        for name in PRIVATE_NAME.findall(names)
    ]
    # Modules in the folder of commands are commands, except `_progress`.
    assert [line for line in found if not line.endswith(" _progress")] == []


def test_the_simulator_has_no_type_only_imports(python_files: list[Path]) -> None:
    # The contract on its layers does not see imports under TYPE_CHECKING.
    files = [path for path in python_files if path.is_relative_to("integration/simulator")]
    assert [str(path) for path in files if "TYPE_CHECKING" in (ROOT / path).read_text()] == []


def test_applications_of_tests_come_from_make_app(python_files: list[Path]) -> None:
    assert find_hand_wiring("store = CallStore(rules)\napp = Flask(__name__)") == ["CallStore", "Flask"]
    found = {
        str(path): calls
        for path in python_files
        if path.is_relative_to("tests")
        # Trials and benchmarks also measure single services and older releases without make_app.
        and path.parts[1] not in ("trials", "benchmarks")
        and (calls := find_hand_wiring((ROOT / path).read_text()))
    }
    assert found.keys() == WIRED_APART.keys()
