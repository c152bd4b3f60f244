"""The documents in `docs/` agree with the product: pages, links, commands, settings, messages, pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from docs_site.build import SECTION, adapt_links, list_contents, list_pages
from integration.cli import COMMANDS
from integration.settings.model import Settings
from tests.support.application import running_app
from tests.support.harness import ROOT

DOCS = ROOT / "docs"
MD = ".md"
"""Suffix of names that are examples, not citations."""
TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
CODE = re.compile(r"``(?!`) ?(.+?) ?``|`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[ /])switchroom (?!switchroom)([a-z]+)((?: [^ ]+)*)")
SETTING = re.compile(r"^([a-z]+)\.([a-z_]+)(?: = .*)?$")


def list_documents() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def read_code(text: str) -> Iterator[str]:
    """Yield the code of a page: spans, and lines of blocks."""
    for number, part in enumerate(re.split(r"^ *```.*$", text, flags=re.MULTILINE)):
        if number % 2:
            yield from part.splitlines()
        else:
            yield from (match[1] or match[2] for match in CODE.finditer(part))


def test_the_first_page_links_to_every_page_once() -> None:
    pages = list_pages(ROOT)
    index = ROOT / "docs/index.md"
    text = adapt_links(index, index.read_text("utf-8"), pages)
    listed = [
        name
        for table in list_contents(text)
        for name in table.split("\n\n")[1].removesuffix("\n```\n").split()
    ]
    assert sorted(f"{name}.md" for name in listed) == sorted({*pages.values()} - {f"index{MD}"})


@pytest.mark.parametrize("path", list_documents(), ids=lambda path: path.name)
def test_commands_and_settings_of_a_page_exist(path: Path) -> None:
    reference = (DOCS / "command-line.md").read_text("utf-8")
    common, *parts = SECTION.split(reference)
    helps = {name: common + text for name, text in zip(parts[::2], parts[1::2], strict=True)}
    for code in read_code(path.read_text("utf-8")):
        for match in COMMAND.finditer(code):
            assert match[1] in COMMANDS, f"{code}: there is no command {match[1]}"
            for option in re.findall(r"(?<= )--[a-z-]+", match[2].partition(" | ")[0]):
                assert re.search(rf"{option}\b", helps[match[1]]), f"{code}: there is no option {option}"
        setting = SETTING.match(code)
        if setting is not None and setting[1] in Settings.model_fields:
            assert setting[2] in list_keys(setting[1]), f"there is no setting {code}"


def list_keys(section: str) -> set[str]:
    annotation = Settings.model_fields[section].annotation
    models = [annotation, *get_args(annotation)]
    fields = {name: field for model in models for name, field in getattr(model, "model_fields", {}).items()}
    return set(fields) | {field.alias for field in fields.values() if field.alias}


def test_every_health_check_is_explained(tmp_path: Path) -> None:
    section = TROUBLESHOOTING.partition("## Components that fail")[2].partition("\n## ")[0]
    explained = set(re.findall(r"`([^`]+)`", section))
    with running_app(tmp_path) as app:
        assert set(app.client.get("/readyz").json["checks"]) <= explained
