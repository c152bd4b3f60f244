"""Programs of Debian packages that tests run: nginx, Caddy, promtool, restic, PostgreSQL, systemd and others.

`.ci/run` installs them and sets REQUIRE, so that a missing program fails its tests. Without REQUIRE it skips
them with the command that installs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = {
    "nginx": "nginx",
    "caddy": "caddy",
    "promtool": "prometheus",
    "restic": "restic",
    "initdb": "postgresql",
    "logrotate": "logrotate",
    "strace": "strace",
    "systemd-analyze": "systemd",
    "systemd-socket-activate": "systemd",
    "systemd-sysusers": "systemd",
}
"""Debian package of each program."""
REQUIRE = "REQUIRE_DEBIAN_TOOLS"
"""Environment variable that makes a missing program a failure."""


def find_tool(name: str) -> str:
    """Return the path of a program.

    Skips or fails the test without it.
    """
    folders = (os.environ["PATH"], "/usr/sbin", *map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    path = shutil.which(name, path=":".join(folders))
    if path is None:
        message = f"{name} is missing: apt-get install --no-install-recommends {PACKAGES[name]}"
        if os.environ.get(REQUIRE):
            pytest.fail(message)
        pytest.skip(message)
    return path


def run_tool(name: str, *arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with `text` as its input."""
    return subprocess.run(
        [find_tool(name), *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120
    )
