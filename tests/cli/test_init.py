"""`switchroom init`: valid settings, and no overwritten files."""

from __future__ import annotations

import os
import stat
import tomllib

import pytest

from integration.core.errors import SwitchroomError
from integration.maintenance import first_config
from integration.settings.model import load

BASE = ("init", "--base-url", "https://api.example.com/v1.2", "--user-id", "0100001")


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key"
    path.write_text("0" * 40 + "\n")
    return str(path)


def test_the_file_is_valid_and_private_and_its_path_is_the_only_output(home, key):
    path = home.folder / "new.toml"
    more = ("--public-url", "https://calls.example.com", "--country", "gb", "--port", "8080")
    done = home.run(*BASE, "--api-key-file", key, *more, "--config", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    settings = load(path, {})
    assert settings.platform.user_id == "0100001"
    assert settings.platform.api_key == "0" * 40
    assert settings.server.public_url == "https://calls.example.com"
    assert settings.server.port == 8080
    assert "0" * 40 not in done.stderr


def test_an_existing_file_is_not_overwritten(home, key):
    path = home.folder / "config.toml"
    path.write_text("other content")
    done = home.run(*BASE, "--api-key-file", key, "--config", str(path))
    assert done.returncode == 1
    assert "was not changed" in done.stderr
    assert path.read_text() == "other content"


def test_an_existing_file_is_an_error_before_the_first_prompt(home):
    (home.folder / "config.toml").write_text("other content")
    done = home.run("init", "--config", "config.toml")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "already exists" in done.stderr


@pytest.mark.parametrize("target", ["there", "not there"])
def test_a_symbolic_link_is_never_followed(tmp_path, target):
    (tmp_path / "there").write_text("other content")
    path = tmp_path / "config.toml"
    path.symlink_to(tmp_path / target)
    platform = {"base_url": "https://api.example.com/v1.2", "user_id": "7", "api_key": "0"}
    with pytest.raises(SwitchroomError, match="already exists"):
        first_config.write(path, {"platform": platform})
    assert (tmp_path / "there").read_text() == "other content"
    assert not (tmp_path / "not there").exists()


def test_missing_and_invalid_values_are_reported_together_and_nothing_is_written(home):
    path = home.folder / "new.toml"
    done = home.run("init", "--user-id", "7", "--country", "Atlantis", "--config", str(path))
    assert done.returncode == 2
    for key in ("platform.base_url", "platform.api_key", "dashboard.country"):
        assert key in done.stderr
    assert not path.exists()


def test_values_are_unchanged_after_toml_formatting_and_parsing():
    odd = "quote \" backslash \\ hash # \x7f ü 😀 '''"
    parsed = tomllib.loads(first_config.format_toml({"platform": {"api_key": odd, "n": 7}, "server": {}}))
    assert parsed == {"platform": {"api_key": odd, "n": 7}}


def test_without_option_the_environment_decides_the_path(home, key):
    path = home.folder / "by-environment.toml"
    done = home.run(*BASE, "--api-key-file", key, config=str(path))
    assert done.returncode == 0, done.stderr
    assert path.exists()
    assert not os.path.exists(home.folder / "config.toml")
