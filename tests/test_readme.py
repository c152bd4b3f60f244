"""README: install lines, links and commands are those of the repository."""

from __future__ import annotations

import re
import tomllib

from integration.cli import COMMANDS
from tests import readme

ROOT = readme.README.parent
TEXT = readme.README.read_text("utf-8")


def test_run_and_test_are_one_shell_line_each_with_the_installation():
    for heading, ending in (("Run", "app.py demo"), ("Test", "pytest")):
        line = readme.line(heading)
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install")
        assert line.endswith(ending)


def test_every_link_and_picture_has_a_target():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert "docs/pictures/live.png" in targets
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_every_command_is_explained_and_every_explained_command_exists():
    table = TEXT[TEXT.index("## Commands") : TEXT.index("## How it works")]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    explained = {word for cell in cells for word in re.findall(r"`([a-z]+)", cell)}
    assert explained == set(COMMANDS)


def test_the_python_version_is_the_one_that_the_package_requires():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11 or newer" in TEXT


def test_ci_runs_the_test_line_of_the_readme_the_checks_and_the_trials():
    script = (ROOT / ".ci" / "run").read_text()
    for needed in (
        "tests/readme.py Test",
        "-m exhaustive",
        "'.[browser,examples,release]'",
        "tests.checks",
        "tests.trials --short",
        "chromium",
    ):
        assert needed in script
