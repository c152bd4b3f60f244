"""`python -m tests.release`: its checks, and the files of a rehearsal."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration import __version__
from tests.support.harness import ROOT


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, _, date = headings[0].partition(", ")
    assert version == __version__
    assert re.fullmatch(r"not yet released|\d{4}-\d{2}-\d{2}", date)


def test_the_version_is_written_in_one_place() -> None:
    (line,) = [
        line
        for line in (ROOT / "integration" / "__init__.py").read_text().splitlines()
        if line.startswith("__version__")
    ]
    assert line == f'__version__ = "{__version__}"'
    assert __version__ not in (ROOT / "pyproject.toml").read_text()


@pytest.mark.exhaustive
def test_a_rehearsal_writes_packages_bill_notices_notes_and_checksums(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    command = [sys.executable, "-m", "tests.release", "--rehearsal", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    bill = f"switchroom-{__version__}.cdx.json"
    names = {
        bill, f"switchroom-{__version__}.tar.gz", f"switchroom-{__version__}-py3-none-any.whl",
        "THIRD-PARTY-NOTICES.txt", "RELEASE-NOTES.txt", "SHA256SUMS",
    }  # fmt: skip
    assert {path.name for path in out.iterdir()} == names
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
        names.remove(name)
    assert names == {"SHA256SUMS"}
    locked = dict(
        re.findall(r"^([a-z0-9._-]+)==(\S+) ", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    components = {
        re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"]
        for one in json.loads((out / bill).read_text())["components"]
    }
    assert components == locked
    notices = (out / "THIRD-PARTY-NOTICES.txt").read_text()
    for text in ("Flask\n3.", "Copyright 2010 Pallets", "Copyright (c) Alex Grönholm"):
        assert text in notices
    assert "Webhooks are stored before they are acknowledged" in (out / "RELEASE-NOTES.txt").read_text()
