"""Version, commit and files of the installed code.

A checkout has templates, styles, documentation site and the settings manual at its top level. A wheel has
them in `integration/assets/`, because an installed package owns no other folder; `hatch_build.py` puts them
there.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

from integration import __version__

_PACKAGE = Path(__file__).parents[1]


def describe_command(arguments: str) -> str:
    """Return the command line that runs `arguments` with this installation, in backquotes."""
    program = Path(sys.argv[0])
    if program.name != "app.py":
        return f"`switchroom {arguments}`"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"`{python} {program} {arguments}`"


def find_assets() -> Path:
    """Return the folder with `templates/`, `static/` and `config.example.toml`."""
    packaged = _PACKAGE / "assets"
    return packaged if packaged.is_dir() else _PACKAGE.parent


def find_help_site() -> Path:
    """Return the folder of the documentation site.

    It may be missing in a checkout: `python -m docs_site` builds it there.
    """
    assets = find_assets()
    return assets / "help" if assets.name == "assets" else assets / "build" / "help"


COMMIT_FILE = "COMMIT"
"""File with the commit, which `hatch_build.py` adds to packages."""

UNKNOWN = "unknown"
"""Commit of code that is neither a package nor a checkout."""

_GIT_SECONDS = 5.0


@cache
def find_commit() -> str:
    """Return the first 12 digits of the commit, or UNKNOWN.

    A package has it in COMMIT_FILE, a checkout in git.
    """
    folder = find_assets()
    try:
        return (folder / COMMIT_FILE).read_text("utf-8").strip() or UNKNOWN
    except OSError:
        pass
    # Without the check git would find a repository above the folder, which may be any other project.
    if not (folder / ".git").exists():
        return UNKNOWN
    command = ("git", "-C", str(folder), "rev-parse", "--short=12", "HEAD")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        # git is not installed, or refuses the folder of another owner.
        return UNKNOWN
    return done.stdout.strip() or UNKNOWN


def describe_build() -> str:
    """Return version and commit in words, such as `1.0.0 (commit 0123456789ab)`."""
    return f"{__version__} (commit {find_commit()})"
