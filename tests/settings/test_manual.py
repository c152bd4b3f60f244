"""config.example.toml contains all keys with their defaults and help."""

from __future__ import annotations

from pathlib import Path

from integration.settings.manual import render_manual, render_page

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def test_the_example_equals_the_rendered_manual() -> None:
    assert EXAMPLE.read_text("utf-8") == render_manual()


def test_the_page_of_settings_equals_the_rendered_page() -> None:
    assert PAGE.read_text("utf-8") == render_page()


def test_the_unchanged_example_lacks_only_credentials() -> None:
    from integration.core.errors import ConfigurationError
    from integration.settings.model import load

    try:
        load(EXAMPLE, {})
    except ConfigurationError as error:
        (line,) = error.mistakes
        assert line.startswith("platform.api_key: no credentials")
