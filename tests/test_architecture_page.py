"""docs/architecture.md names modules, packages and layers that exist."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "integration"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)(?:\.[A-Za-z_]+)?`")


def section(heading: str) -> str:
    """Return the text below a heading of level 2."""
    return re.split(r"^## ", PAGE.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]


def test_every_named_module_exists() -> None:
    names = set(MODULE.findall(PAGE))
    paths = {name: PACKAGE / name for name in names}
    missing = [
        name for name, path in paths.items() if not path.with_suffix(".py").exists() and not path.is_dir()
    ]
    assert len(names) > 100
    assert not missing


def test_the_layers_are_those_of_the_contract() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    expected = re.findall(r"\w+", contract["importlinter:contract:layers"]["layers"])
    rows = [line.split("|")[2] for line in section("Layers").splitlines() if "| `" in line]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == expected


def test_every_package_has_a_line() -> None:
    packages = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    assert [cell.strip("`") for cell in first_cells(section("Packages"))] == packages
