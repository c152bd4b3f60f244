"""Mistakes in the settings: one line with key and correction for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.core.errors import ConfigurationError
from integration.settings.model import load

VALID = """
[platform]
base_url = "https://api.example.com/v1.2"
user_id = "100001"
api_key = "0123456789"
"""

MISTAKES = {
    "port = 8000": "port: must be a section ([port]) in config.toml",
    "[sever]\nport = 1": "sever: unknown section; did you mean server?",
    "[server]\nprot = 1": "server.prot: unknown key; did you mean server.port?",
    "[server]\nport = 'many'": "server.port: must be a whole number, not 'many'",
    "[server]\nport = 70000": "server.port: must be at most 65535, not 70000",
    "[calls]\nring_seconds = [40]": "calls.ring_seconds: has too few entries, not [40]",
    "[exports]\nmax_gb = 0": "exports.max_gb: must be more than 0, not 0",
    "[facade]\nbase_paths = ['/login']": "facade.base_paths: '/login' is reserved",
    "[alerts]\nurls = ['canary']": "alerts.urls: must be a URL with a scheme, such as mailto:// or https://",
    "[smtp]\nfrom = 'calls@example.com'": "smtp.host: is required if smtp.from is set; set it, or remove all"
    " keys of [smtp]",
    "[smtp]\nhost = 'mail.example.com'\nfrom = 'a@example.com'\nuser = 'u'\npassword = 'canary'\n"
    "starttls = false": "smtp.starttls: false would send smtp.password unencrypted; remove smtp.starttls, or"
    " remove smtp.user and smtp.password",
    **{
        f"[{section}]\n{key} = {value}": f"{section}.{key}: "
        for section, key, value in (
            ("server", "host", "'127.0.0.1:8000'"),
            ("server", "public_url", "'calls.example.com'"),
            ("server", "trusted_proxies", "['proxy']"),
            ("server", "metrics_listen", "'9100'"),
            ("webhooks", "secret", "'two words'"),
            ("recordings", "download", "'perhaps'"),
            ("dashboard", "timezone", "'Mars/Base'"),
            ("dashboard", "country", "'UK'"),
        )
    },
}
"""Text added to valid settings, and the beginning of the first mistake."""

PLATFORM_MISTAKES = {
    "": "platform.base_url: is required; set it in config.toml or with SWITCHROOM_PLATFORM__BASE_URL",
    "base_url = 'ftp://api.example.com'\nuser_id = '7'\napi_key = 'k'": "platform.base_url: must be a URL"
    " that"
    " begins with https:// (or http://)",
    "base_url = 'https://api.example.com'\nuser_id = '7'": "platform.api_key: is required if platform.user_id"
    " is set",
    "base_url = 'https://api.example.com'\nuser_id = '7:8'\napi_key = 'k'": "platform.user_id: must not"
    " contain"
    " a colon (HTTP Basic uses it as the separator)",
    "base_url = 'https://api.example.com'": "platform.api_key: no credentials; set user_id and api_key, or"
    " email and password",
    "base_url = 'https://api.example.com'\nuser_id = '7'\napi_key = 'k'\nemail = 'a@example.com'\n"
    "password = 'canary'": "platform.email: an API key and a login are both configured; remove"
    " platform.user_id"
    " and platform.api_key, or platform.email and platform.password",
    "base_url = 'https://api.example.com'\nemail = 'ann'\npassword = 'canary'": "platform.email: must be an"
    " e-mail address",
    "base_url = 'https://api.example.com'\nuser_id = '7'\napi_key = 'k'\nca_file = '/nowhere.pem'":
    "platform.ca_file: /nowhere.pem: cannot be read: No such file or directory; correct the path, or make the"
    " file readable for this user",
}  # fmt: skip
"""Content of the section platform, and the first mistake."""

VARIABLES = {
    "SWITCHROOM_SERVER_PORT": "SWITCHROOM_SERVER_PORT: unknown variable; did you mean"
    " SWITCHROOM_SERVER__PORT?",
    "SWITCHROOM_CONFG": "SWITCHROOM_CONFG: unknown variable; did you mean SWITCHROOM_CONFIG?",
    "SWITCHROOM_SERVER__PROT": "SWITCHROOM_SERVER__PROT: unknown variable; did you mean"
    " SWITCHROOM_SERVER__PORT?",
    "SWITCHROOM_PLATFORM_API_KEY_FILE": "SWITCHROOM_PLATFORM_API_KEY_FILE: unknown variable; did you mean"
    " SWITCHROOM_PLATFORM__API_KEY_FILE?",
    "SWITCHROOM_XYZZY": "SWITCHROOM_XYZZY: unknown variable; remove it",
    "SWITCHROOM_SMTP__PASSWORD_FILE": "smtp.password: SWITCHROOM_SMTP__PASSWORD_FILE: /nowhere: cannot be"
    " read:"
    " No such file or directory",
}
"""Variable with the value `/nowhere`, and the mistake."""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def find_mistakes(text: str, **environ: str) -> tuple[str, ...]:
    Path("config.toml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(None, environ)
    return caught.value.mistakes


@pytest.mark.parametrize(("text", "mistake"), MISTAKES.items())
def test_a_mistake_is_one_line_that_names_the_key_and_the_correction(text: str, mistake: str) -> None:
    # A key without a section must precede the sections.
    content = f"{text}\n{VALID}" if not text.startswith("[") else f"{VALID}\n{text}\n"
    found = find_mistakes(content)
    assert found[0].startswith(mistake)
    assert not any("\n" in line or "canary" in line for line in found)


@pytest.mark.parametrize(("text", "mistake"), PLATFORM_MISTAKES.items())
def test_a_mistake_in_the_platform_is_one_line_without_secrets(text: str, mistake: str) -> None:
    found = find_mistakes(f"[platform]\n{text}\n")
    assert found[0] == mistake
    assert "canary" not in "".join(found)


@pytest.mark.parametrize(("name", "mistake"), VARIABLES.items())
def test_an_unknown_or_unreadable_variable_is_one_mistake(name: str, mistake: str) -> None:
    assert find_mistakes(VALID, **{name: "/nowhere"}) == (mistake,)


def test_the_variable_of_the_settings_file_and_other_programs_variables_are_accepted() -> None:
    Path("other.toml").write_text(VALID)
    settings = load(
        None, {"SWITCHROOM_CONFIG": "other.toml", "_SWITCHROOM_COMPLETE": "x", "SWITCHROOMS": "1"}
    )
    assert settings.platform.user_id == "100001"


@pytest.mark.parametrize("credentials", ["", "user_id = '7'", "email = 'a@example.com'"])
def test_missing_credentials_are_no_mistake_for_commands_with_local_data(credentials: str) -> None:
    Path("config.toml").write_text(f"[platform]\nbase_url = 'https://api.example.com/v1.2'\n{credentials}\n")
    settings = load(None, {}, needs_credentials=False)
    assert settings.platform.base_url == "https://api.example.com/v1.2"
