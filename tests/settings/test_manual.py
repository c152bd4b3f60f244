"""config.example.toml names every key there is, with its default and its help, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from integration.settings.manual import render_manual
from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def uncommented() -> dict[str, dict[str, Any]]:
    lines = EXAMPLE.read_text("utf-8").splitlines()
    return tomllib.loads(
        "\n".join(line[1:] if line[:1] == "#" and line[:2] not in ("#", "# ") else line for line in lines)
    )


def test_it_is_what_the_settings_write() -> None:
    assert EXAMPLE.read_text("utf-8") == render_manual()


def test_its_keys_are_the_keys_of_the_settings_both_ways() -> None:
    assert [(section, key) for section, table in uncommented().items() for key in table] == [
        (section, key) for section, key, _ in iterate_keys(Settings)
    ]


def test_its_values_are_the_defaults_where_there_are_any() -> None:
    example = Settings.model_validate(uncommented())
    plain = Settings.model_validate({"platform": {"base_url": "https://api.example.com"}})
    for section, key, info in iterate_keys(Settings):
        if info.default is not None and not info.is_required():
            name = "from_" if key == "from" else key
            assert getattr(getattr(example, section), name) == getattr(getattr(plain, section), name), (
                section,
                key,
            )


def test_every_key_has_its_help() -> None:
    assert all(info.description for _, _, info in iterate_keys(Settings))


def test_the_copied_file_as_it_is_lacks_only_credentials() -> None:
    from integration.core.errors import ConfigurationError
    from integration.settings.model import load

    try:
        load(EXAMPLE, {})
    except ConfigurationError as error:
        (line,) = error.mistakes
        assert line.startswith("platform.api_key: no credentials")
