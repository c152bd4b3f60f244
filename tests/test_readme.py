"""README: the install line is that of the repository."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import app
from tests import readme

ROOT = readme.README.parent


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
