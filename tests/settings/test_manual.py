"""config.example.toml contains all keys with their defaults and help."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from integration.maintenance import backup
from integration.outbound import mail_server
from integration.settings.data_dir_secrets import load_webhook_secrets
from integration.settings.manual import render_manual, render_page
from integration.settings.model import Settings
from integration.settings.sources import iterate_keys

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
EXAMPLE = Path(__file__).parents[2] / "config.example.toml"


def read_uncommented() -> dict[str, dict[str, Any]]:
    lines = EXAMPLE.read_text("utf-8").splitlines()
    return tomllib.loads(
        "\n".join(line[1:] if line[:1] == "#" and line[:2] not in ("#", "# ") else line for line in lines)
    )


def test_the_example_equals_the_rendered_manual() -> None:
    assert EXAMPLE.read_text("utf-8") == render_manual()


def test_the_page_of_settings_equals_the_rendered_page() -> None:
    assert PAGE.read_text("utf-8") == render_page()


def test_a_default_that_depends_on_other_keys_is_stated_and_true(tmp_path: Path) -> None:
    stated = {
        f"{section}.{key}": info.description.partition("If unset, ")[2].rstrip(".")
        for section, key, info in iterate_keys(Settings)
        if "If unset, " in (info.description or "")
    }
    assert stated == {
        "webhooks.secret": "the secret is generated at the first start and stored in data_dir",
        "smtp.port": "587",
        "smtp.starttls": "STARTTLS is used on every port except 465",
        "backup.dest": "backups/ in data_dir",
        "exports.folder": "exports/ in data_dir",
    }
    settings = Settings.model_validate(
        {
            "platform": {"base_url": "https://api.example.com"},
            "storage": {"data_dir": tmp_path},
        }
    )
    assert mail_server.DEFAULT_PORT == 587
    assert backup.get_destination(settings) == tmp_path / "backups"
    assert load_webhook_secrets(settings)[0] == (tmp_path / "webhook-secret").read_text().strip()


def test_the_values_of_the_example_are_the_defaults() -> None:
    example = Settings.model_validate(read_uncommented())
    plain = Settings.model_validate({"platform": {"base_url": "https://api.example.com"}})
    for section, key, info in iterate_keys(Settings):
        if info.default is not None and not info.is_required():
            name = "from_" if key == "from" else key
            assert getattr(getattr(example, section), name) == getattr(getattr(plain, section), name), (
                section,
                key,
            )


def test_each_key_has_a_help_text() -> None:
    assert all(info.description for _, _, info in iterate_keys(Settings))


def test_the_unchanged_example_lacks_only_credentials() -> None:
    from integration.core.errors import ConfigurationError
    from integration.settings.model import load

    try:
        load(EXAMPLE, {})
    except ConfigurationError as error:
        (line,) = error.mistakes
        assert line.startswith("platform.api_key: no credentials")
