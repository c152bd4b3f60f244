"""README: install lines, links and commands are those of the repository."""

from __future__ import annotations

import re

from integration.cli import COMMANDS
from tests import readme

ROOT = readme.README.parent
TEXT = readme.README.read_text("utf-8")


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
