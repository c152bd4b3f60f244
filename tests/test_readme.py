"""README: install lines, links and commands are those of the repository."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

import app
from integration.cli import COMMANDS
from tests import readme

ROOT = readme.README.parent
TEXT = readme.README.read_text("utf-8")


def test_without_its_packages_app_py_prints_the_line_of_this_page() -> None:
    assert readme.line("Run") == f"{app.INSTALL} demo"
    # -S: without the packages of the environment.
    done = subprocess.run(
        [sys.executable, "-S", "app.py", "demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "switchroom: the package click is missing. Run this in the folder of app.py:\n"
        f"  {readme.line('Run')}\n"
    )


def test_an_old_python_can_parse_app_py_and_gets_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    ast.parse((ROOT / "app.py").read_text("utf-8"), feature_version=(3, 9))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    with pytest.raises(SystemExit, match=r"Python 3\.11 or newer is required, and this is 3\.9\."):
        app.run()


def test_every_command_is_explained_and_every_explained_command_exists():
    table = TEXT[TEXT.index("## Commands") : TEXT.index("## How it works")]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    explained = {word for cell in cells for word in re.findall(r"`([a-z]+)", cell)}
    assert explained == set(COMMANDS)
