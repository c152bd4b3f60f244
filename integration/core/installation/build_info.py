"""Version and commit of the running code."""

from __future__ import annotations

import subprocess
from functools import cache

from integration import __version__
from integration.core.installation.assets import find_assets

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
