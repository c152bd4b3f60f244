"""Settings from a file and the environment; all mistakes in one error."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.core.errors import ConfigurationError
from integration.settings.model import list_warnings, load

REQUIRED = {
    "SWITCHROOM_PLATFORM__BASE_URL": "https://api.example.com/v1.2",
    "SWITCHROOM_PLATFORM__USER_ID": "100001",
    "SWITCHROOM_PLATFORM__API_KEY": "0123456789",
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mistakes(config: Path | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(config, REQUIRED | environ)
    return list(caught.value.mistakes)


def write_config(text: str) -> Path:
    path = Path("settings.toml")
    path.write_text(text)
    return path


def test_settings_can_come_from_the_environment_alone() -> None:
    settings = load(None, REQUIRED)
    assert settings.platform.base_url == "https://api.example.com/v1.2"
    assert settings.platform.api_key == "0123456789"
    assert settings.server.port == 8000
    assert settings.calls.ring_seconds == (20, 40)


def test_config_toml_of_the_working_folder_is_read_and_the_environment_has_priority() -> None:
    Path("config.toml").write_text("[server]\nport = 9000\nhost = '0.0.0.0'\n")
    settings = load(None, REQUIRED | {"SWITCHROOM_SERVER__PORT": "9001"})
    assert (settings.server.host, settings.server.port) == ("0.0.0.0", 9001)


def test_the_option_has_priority_over_the_variable_and_the_variable_over_config_toml() -> None:
    Path("config.toml").write_text("[server]\nport = 1\n")
    Path("variable.toml").write_text("[server]\nport = 2\n")
    named = write_config("[server]\nport = 3\n")
    environ = REQUIRED | {"SWITCHROOM_CONFIG": "variable.toml"}
    assert load(named, environ).server.port == 3
    assert load(None, environ).server.port == 2


def test_a_user_id_may_be_a_number() -> None:
    config = write_config(
        "[platform]\nbase_url = 'https://api.example.com/v1.2'\nuser_id = 100001\napi_key = 'k'\n"
    )
    assert load(config, {}).platform.user_id == "100001"


def test_text_of_digits_stays_text_with_leading_zeros() -> None:
    mail = {
        "SWITCHROOM_SMTP__HOST": "mail.example.com",
        "SWITCHROOM_SMTP__FROM": "calls@example.com",
        "SWITCHROOM_SMTP__PASSWORD": "007",
        "SWITCHROOM_SMTP__USER": "1e3",
    }
    assert load(None, REQUIRED | mail).smtp.user == "1e3"
    assert load(None, REQUIRED | {"SWITCHROOM_WEBHOOKS__SECRET": "0012"}).webhooks.secret == ("0012",)


@pytest.mark.parametrize("text", ["/a, /b", '["/a", "/b"]', "/a,/b,"])
def test_lists_are_comma_separated_or_json(text: str) -> None:
    assert load(None, REQUIRED | {"SWITCHROOM_FACADE__BASE_PATHS": text}).facade.base_paths == ("/a", "/b")


def test_an_empty_variable_is_an_empty_list_or_none() -> None:
    settings = load(
        None,
        REQUIRED
        | {
            "SWITCHROOM_FACADE__BASE_PATHS": "",
            "SWITCHROOM_SMTP__HOST": "",
            "SWITCHROOM_WEBHOOKS__SECRET": "",
        },
    )
    assert (settings.facade.base_paths, settings.smtp.host, settings.webhooks.secret) == ((), None, None)


def test_a_key_can_be_read_from_a_file_without_its_line_end() -> None:
    Path("key").write_text("from-a-file\n")
    environ = {**REQUIRED, "SWITCHROOM_PLATFORM__API_KEY_FILE": "key"}
    del environ["SWITCHROOM_PLATFORM__API_KEY"]
    assert load(None, environ).platform.api_key == "from-a-file"


def test_a_variable_and_its_file_together_are_a_mistake() -> None:
    assert mistakes(SWITCHROOM_PLATFORM__API_KEY_FILE="key") == [
        "platform.api_key: both SWITCHROOM_PLATFORM__API_KEY and SWITCHROOM_PLATFORM__API_KEY_FILE are set;"
        " keep one"
    ]


def test_without_settings_the_error_names_the_command_that_writes_them() -> None:
    with pytest.raises(ConfigurationError, match=r"no settings file config\.toml .* by `switchroom init`, "):
        load(None, {})


def test_without_required_keys_the_error_names_them() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(Path("/dev/null"), {})
    assert [line.split(":")[0] for line in caught.value.mistakes] == ["platform.base_url", "platform.api_key"]
    assert "set it in /dev/null or with SWITCHROOM_PLATFORM__BASE_URL" in caught.value.mistakes[0]


def test_all_mistakes_are_reported_at_once_with_one_line_and_key_each() -> None:
    config = write_config(
        "port = 1\n[plattform]\nx = 1\n[server]\nprot = 1\nport = 'many'\ntls_cert = '/nowhere.pem'\n"
        "[calls]\nring_seconds = [40, 20]\nhold_seconds = [1]\n"
        "[dashboard]\ntimezone = 'Mars/Base'\ncountry = 'UK'\n"
        "[facade]\nwrites = 'perhaps'\n[webhooks]\nusername = 'u'\n[smtp]\nhost = 'mail.example.com'\n"
        "[sync]\noverlap = -1\nrecent_interval = true\n[storage]\ndata_dir = 3\n"
    )
    lines = mistakes(
        config, SWITCHROOM_SEVER__PORT="1", SWITCHROOM_PLATFORM__TIMEOUT="0", SWITCHROOM_PLATFORM__EMAIL="a@b"
    )
    assert {line.split(":")[0].split(" ")[0] for line in lines} == {
        "port", "plattform", "server.prot", "server.port", "server.tls_cert", "server.tls_key",
        "calls.ring_seconds", "calls.hold_seconds", "dashboard.timezone", "dashboard.country",
        "facade.writes", "webhooks.password", "smtp.from", "sync.overlap", "sync.recent_interval",
        "storage.data_dir", "SWITCHROOM_SEVER__PORT", "platform.timeout", "platform.email",
        "platform.password",
    }  # fmt: skip
    assert all("\n" not in line for line in lines)
    assert "plattform: unknown section; did you mean platform?" in lines
    assert "server.prot: unknown key; did you mean server.port?" in lines
    assert "SWITCHROOM_SEVER__PORT: unknown variable; did you mean SWITCHROOM_SERVER__PORT?" in lines


@pytest.mark.parametrize(
    "url",
    [
        "api.example.com/v1.2",
        "ftp://api.example.com",
        "https://",
        "https://u:p@api.example.com/v1.2",
        "https://api.example.com/v1.2?x=1",
        "https://api.example.com:99999/v1.2",
        "https://[::1/v1.2",
        "https://a b/",
    ],
)
def test_an_invalid_base_url_is_rejected(url: str) -> None:
    (line,) = mistakes(SWITCHROOM_PLATFORM__BASE_URL=url)
    assert line.startswith("platform.base_url (SWITCHROOM_PLATFORM__BASE_URL): ")


@pytest.mark.parametrize(
    ("url", "has_warning"), [("http://api.example.com/v1", True), ("http://127.0.0.1:80/v1", False)]
)
def test_plain_http_causes_a_warning_unless_loopback(url: str, has_warning: bool) -> None:
    assert bool(list_warnings(load(None, REQUIRED | {"SWITCHROOM_PLATFORM__BASE_URL": url}))) is has_warning


def test_networks_may_be_addresses_and_other_text_is_rejected() -> None:
    settings = load(None, REQUIRED | {"SWITCHROOM_SERVER__TRUSTED_PROXIES": "192.0.2.1,198.51.100.7/24,::1"})
    assert [str(network) for network in settings.server.trusted_proxies] == [
        "192.0.2.1/32",
        "198.51.100.0/24",
        "::1/128",
    ]
    (line,) = mistakes(SWITCHROOM_WEBHOOKS__ALLOW_FROM="192.0.2.1,everyone")
    assert line.startswith("webhooks.allow_from (SWITCHROOM_WEBHOOKS__ALLOW_FROM): 'everyone'")


def test_a_missing_file_is_one_mistake() -> None:
    assert mistakes(Path("absent.toml")) == ["absent.toml: cannot be read: No such file or directory"]


def test_invalid_toml_is_one_mistake_with_its_line_and_no_missing_keys() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(write_config("[server]\nport = \n"), {})
    (line,) = caught.value.mistakes
    assert line.startswith("settings.toml: line 2, column 8: ")


def test_a_file_in_another_encoding_is_one_mistake() -> None:
    Path("latin.toml").write_bytes(b"[smtp]\nuser = 'M\xfcller'\n")
    assert mistakes(Path("latin.toml")) == ["latin.toml: is not UTF-8 text (byte 16)"]


def test_mistakes_and_repr_contain_no_secret() -> None:
    config = write_config(
        "[platform]\napi_key = 271828\n[smtp]\npassword = ['canary-1']\n[alerts]\nurls = ['canary-2']\n"
    )
    shown = "".join(
        mistakes(config, SWITCHROOM_WEBHOOKS__SECRET="canary/3", SWITCHROOM_PLATFORM__PASSWORD="canary\n4")
    )
    assert "canary" not in shown
    assert "271828" not in shown
    canary = {"SWITCHROOM_WEBHOOKS__SECRET": "canary", "SWITCHROOM_PLATFORM__API_KEY": "canary"}
    assert "canary" not in repr(
        load(None, REQUIRED | canary | {"SWITCHROOM_ALERTS__URLS": "mailto://canary"})
    )
