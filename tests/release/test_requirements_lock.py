"""`requirements.lock` pins all dependencies with hashes (S22).

They are those of pyproject.toml, and `pip install --require-hashes` accepts the file.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.harness import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
PINS = re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\\n((?: {4}--hash=\S+(?: \\)?\n)+)", LOCK, re.MULTILINE)
REQUIREMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


@pytest.mark.parametrize("line", REQUIREMENTS)
def test_every_dependency_is_pinned_to_a_version_it_allows(line: str) -> None:
    requirement = Requirement(line)
    (version,) = [version for name, version, _ in PINS if name == canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version)


def test_every_pin_has_hashes_and_the_file_has_nothing_else() -> None:
    left = LOCK
    for name, version, hashes in PINS:
        assert re.fullmatch(r"(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", hashes), name
        left = left.replace(f"{name}=={version} \\\n{hashes}", "", 1)
    assert [line for line in left.splitlines() if line.strip() and not line.strip().startswith("#")] == []
    assert len({name for name, _, _ in PINS}) == len(PINS)
    assert "://" not in LOCK


@pytest.mark.exhaustive
def test_every_pin_has_a_wheel_for_arm(tmp_path: Path) -> None:
    """For the Python of the image."""
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 28)]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
        "--only-binary=:all:", *platforms, "--platform=manylinux2014_aarch64", "--implementation=cp",
        "--python-version=3.13", "--abi=cp313", "--abi=abi3", "--abi=none", f"--dest={tmp_path}",
        f"--requirement={ROOT / 'requirements.lock'}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.iterdir())) == len(PINS)
