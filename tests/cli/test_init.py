"""`switchroom init`: valid settings, and no overwritten files."""

from __future__ import annotations

import stat
import tomllib

import pytest
from click.testing import CliRunner

from integration.cli.init import command
from integration.core.errors import ConfigurationError, SwitchroomError
from integration.settings import first_config
from integration.settings.model import load
from tests.support.scripted_server import Server

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


def test_an_existing_file_is_an_error_before_the_first_prompt(home):
    (home.folder / "config.toml").write_text("other content")
    done = home.run("init", "--config", "config.toml")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "already exists" in done.stderr
    assert (home.folder / "config.toml").read_text() == "other content"


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
    done = home.run("init", "--user-id", "ann", "--country", "Atlantis", "--config", str(path))
    assert done.returncode == 2
    for key in (
        "platform.base_url",
        "platform.user_id: must consist",
        "platform.api_key",
        "dashboard.country",
    ):
        assert key in done.stderr
    assert not path.exists()


def test_values_are_unchanged_after_toml_formatting_and_parsing():
    odd = "quote \" backslash \\ hash # \x7f ü 😀 '''"
    parsed = tomllib.loads(first_config.format_toml({"platform": {"api_key": odd, "n": 7}, "server": {}}))
    assert parsed == {"platform": {"api_key": odd, "n": 7}}


@pytest.fixture
def prompted(home, monkeypatch):
    """Function that answers the prompts; returns the result and the file."""
    monkeypatch.setattr("integration.cli.init.is_terminal", lambda: True)
    monkeypatch.chdir(home.folder)
    path = home.folder / "new.toml"

    def run(*answers, arguments=()):
        lines = "".join(f"{answer}\n" for answer in answers)
        done = CliRunner().invoke(command, ["--config", str(path), *arguments], input=lines)
        assert done.exception is None or isinstance(done.exception, (SystemExit, ConfigurationError))
        return done, tomllib.loads(path.read_text()) if path.exists() else None

    return run


@pytest.fixture
def platform():
    server = Server()
    server.routes["/v1.2/ping"] = lambda request, reply: reply.json({"message": "Pong"})
    server.routes["/v1.2/me"] = lambda request, reply: (
        reply.json({"message": "Unauthorized", "errors": []}, 401)
        if "wrong" in str(request.headers["X-Auth-Token"])
        else reply.json({"data": {"id": 7, "email": "ann@example.com", "is_root": 1}, "links": {}})
    )
    yield server
    server.close()


def test_a_wrong_answer_to_each_question_is_refused_with_its_reason(prompted, platform, certificates, home):
    done, settings = prompted(
        *("", "ftp://api.example.com", f"{platform.url}/v1.2"),
        *("ann", "7", "", "\x01", "wrong", "change", "", "7", "right"),
        *("perhaps", "tls"),
        *("https://calls.example.com/pbx", "https://calls.example.com"),
        *("/nowhere.pem", str(certificates / "cert.pem")),
        *("/nowhere.pem", str(certificates / "key.pem")),
        *("many", "0", "data"),
        *("Mars/Base", "Europe/London", "UK", "gb", "n"),
    )
    assert done.exit_code == 0, done.output
    for reason in (
        "platform.base_url: must be a URL that begins with https:// (or http://). Enter another value.",
        "platform.user_id: must consist of digits, not 'ann'. Enter another value.",
        "platform.api_key: contains a control character",
        "fail  credentials: the platform refuses the API key; check platform.user_id and platform.api_key",
        "server.tls_key: /nowhere.pem: cannot be read: No such file or directory; correct the path",
        "ok    credentials: logged in as ann@example.com, administrator",
    ):
        assert reason in done.stderr, reason
    assert settings == {
        "platform": {"base_url": f"{platform.url}/v1.2", "user_id": "7", "api_key": "right"},
        "server": {
            "public_url": "https://calls.example.com",
            "tls_cert": str(certificates / "cert.pem"),
            "tls_key": str(certificates / "key.pem"),
            "host": "0.0.0.0",
            "port": 0,
        },
        "storage": {"data_dir": "data"},
        "dashboard": {"timezone": "Europe/London", "country": "gb"},
    }


def test_the_file_is_written_while_the_platform_is_away(prompted):
    done, settings = prompted(
        *("http://127.0.0.1:9/v1.2", "", "ann", "ann@example.com", "secret", "keep"),
        *("proxy", "https://calls.example.com", "proxy.example.com", "192.0.2.7", "0", "data", "", "", "n"),
    )
    assert done.exit_code == 0, done.output
    assert "fail  platform: http://127.0.0.1:9/v1.2: the platform refuses connections" in done.stderr
    assert "platform.email: must be an e-mail address. Enter another value." in done.stderr
    assert "'proxy.example.com' is not an address or network" in done.stderr
    assert settings["platform"]["email"] == "ann@example.com"
    assert settings["server"] == {
        "public_url": "https://calls.example.com",
        "trusted_proxies": ["192.0.2.7"],
        "host": "0.0.0.0",
        "port": 0,
    }
    assert "secret" not in done.output


def test_doctor_is_offered_and_runs_with_the_new_file(prompted, platform, monkeypatch):
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Europe/Berlin")
    done, settings = prompted(f"{platform.url}/v1.2", "7", "right", "later", "0", "data", "", "", "y")
    assert done.exit_code == 0, done.output
    assert settings["dashboard"] == {"timezone": "Europe/Berlin"}, "the zone of the computer is the default"
    assert all(line.count("[") + line.count("(") <= 1 for line in done.stderr.splitlines() if "]:" in line)
    assert "ok    platform: " in done.stdout
    assert "warn  public address: not set" in done.stdout
    assert done.stderr.splitlines()[-1] == "Next: `switchroom serve`"


def test_wrong_options_are_mistakes_before_the_first_prompt(prompted):
    done, settings = prompted(arguments=["--base-url", "ftp://example.com", "--country", "UK"])
    assert settings is None
    assert "Service root" not in done.output
    assert [mistake.partition(":")[0] for mistake in done.exception.mistakes] == [
        "platform.base_url",
        "dashboard.country",
    ]


def test_an_interruption_writes_nothing(prompted, home):
    done, settings = prompted("http://127.0.0.1:9/v1.2")
    assert (done.exit_code, settings) == (1, None)
    assert [path.name for path in home.folder.iterdir()] == ["data"]


def test_a_missing_folder_is_an_error_before_the_first_prompt(home):
    done = home.run("init", "--config", "absent/config.toml")
    assert done.returncode == 1
    assert "Create it, or choose another file by --config." in done.stderr
