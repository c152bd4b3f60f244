"""`requirements.lock` pins all dependencies with hashes (S22).

They are those of pyproject.toml, and `pip install --require-hashes` accepts the file.
"""

from __future__ import annotations

import re
import tomllib

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
