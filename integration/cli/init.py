"""Command `switchroom init`.

On a terminal it prompts for values and checks each answer at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, Any

import click

from integration.cli import config_option, console
from integration.core.errors import ConfigurationError
from integration.core.installation import describe_command
from integration.settings.sources import CONFIG_VARIABLE, DEFAULT_FILE

ACCESS_HELP = (
    "Browsers and the platform reach Switchroom by HTTPS: through a reverse proxy (proxy), with a certificate"
    " that Switchroom uses itself (tls), or not yet (later)."
)


def is_terminal() -> bool:
    """Return whether a user can answer prompts."""
    return sys.stdin is not None and sys.stdin.isatty()


class Answers:
    """Answers by section and key, without empty ones."""

    def __init__(self, given: dict[str, dict[str, Any]]) -> None:
        self.values: dict[str, dict[str, Any]] = {
            section: {key: value for key, value in keys.items() if value or value == 0}
            for section, keys in given.items()
        }

    def has(self, name: str) -> bool:
        section, _, key = name.partition(".")
        return key in self.values[section]

    def require_valid(self) -> None:
        """Raise ConfigurationError for invalid answers that were given as options."""
        from integration.settings import first_config

        mistakes = [
            mistake
            for section, keys in self.values.items()
            for key, value in keys.items()
            if (mistake := first_config.find_mistake(section, key, value)) is not None
        ]
        if mistakes:
            raise ConfigurationError(mistakes)

    def prompt(
        self,
        name: str,
        question: str,
        *,
        default: str | None = None,
        hidden: bool = False,
        optional: bool = False,
        is_list: bool = False,
    ) -> None:
        """Prompt for a missing answer until it is valid.

        An empty answer to an `optional` question leaves the key out.
        """
        from integration.settings import first_config

        if self.has(name):
            return
        section, _, key = name.partition(".")
        while True:
            # On standard error: standard output is for the result.
            text = click.prompt(
                question, hide_input=hidden, err=True, default=default or "", show_default=bool(default)
            ).strip()
            if not text and optional:
                return
            if not text:
                click.echo(f"{name}: a value is required. {question}.", err=True)
                continue
            value: Any = [text] if is_list else text
            mistake = first_config.find_mistake(section, key, value)
            if mistake is None:
                self.values[section][key] = int(text) if key == "port" else value
                return
            click.echo(f"{mistake}. Enter another value.", err=True)


@click.command(
    "init",
    help="Write a first settings file. On a terminal, prompts for anything not given as an option, checks"
    " each"
    " answer and tries to log in to the platform. Never overwrites a file.",
)
@click.option("--base-url", metavar="URL", help="Service root of the platform with its version segment.")
@click.option("--user-id", metavar="ID", help="User id of the API key.")
@click.option("--api-key-file", type=click.File(), metavar="FILE", help="File with the API key; - for stdin.")
@click.option("--email", help="E-mail address of a login, instead of an API key.")
@click.option(
    "--password-file", type=click.File(), metavar="FILE", help="File with the login's password; - for stdin."
)
@click.option("--public-url", metavar="URL", help="HTTPS URL for the platform and browsers.")
@click.option("--proxy", metavar="ADDRESS", help="Address of the reverse proxy, such as 127.0.0.1.")
@click.option("--tls-cert", metavar="FILE", help="Certificates (PEM), to serve HTTPS without a proxy.")
@click.option("--tls-key", metavar="FILE", help="Private key (PEM) of the certificate.")
@click.option("--data-dir", metavar="FOLDER", help="Data folder. [default: data]")
@click.option("--port", type=int, help="Port to listen on. [default: 8000]")
@click.option("--timezone", metavar="ZONE", help="Time zone of the dashboard, such as Europe/London.")
@click.option("--country", metavar="CODE", help="Country of numbers without a country code, such as GB.")
@config_option
def command(
    base_url: str | None,
    user_id: str | None,
    api_key_file: IO[str] | None,
    email: str | None,
    password_file: IO[str] | None,
    public_url: str | None,
    proxy: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    data_dir: str | None,
    port: int | None,
    timezone: str | None,
    country: str | None,
    config: Path | None,
) -> None:
    from integration.settings import first_config

    path = config or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILE)
    first_config.require_creatable(path)
    given: dict[str, dict[str, Any]] = {
        "platform": {
            "base_url": base_url,
            "user_id": user_id,
            "api_key": api_key_file.read().strip() if api_key_file else None,
            "email": email,
            "password": password_file.read().strip() if password_file else None,
        },
        "server": {
            "public_url": public_url,
            "trusted_proxies": [proxy] if proxy else None,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "port": port,
        },
        "storage": {"data_dir": data_dir},
        "dashboard": {"timezone": timezone, "country": country},
    }
    answers = Answers(given)
    interactive = is_terminal()
    if interactive:
        answers.require_valid()
        prompt_platform(answers)
        prompt_access(answers)
        prompt_rest(answers)
    first_config.write(path, answers.values)
    click.echo(path)
    is_checked = interactive and click.confirm(
        f"Check the installation with {describe_command('doctor')} now?", True, err=True
    )
    if is_checked:
        from integration.cli.doctor import run_checks

        run_checks(path)
    check = "" if is_checked else f"check it with {describe_command('doctor')}, then run "
    console.print_message(f"Next: {check}{describe_command('serve')}")


def prompt_platform(answers: Answers) -> None:
    """Prompt for address and credentials, and try them.

    The user may keep answers that fail: the platform may be unreachable now.
    """
    previous_url = None
    while True:
        answers.prompt(
            "platform.base_url",
            "Service root of the platform, such as https://api.example.com/v1.2",
            default=previous_url,
        )
        if not answers.has("platform.email") and not answers.has("platform.password"):
            answers.prompt(
                "platform.user_id", "User id of the API key (empty to log in by e-mail)", optional=True
            )
        if answers.has("platform.user_id") or answers.has("platform.api_key"):
            answers.prompt("platform.api_key", "API key", hidden=True)
        else:
            answers.prompt("platform.email", "E-mail address of the login")
            answers.prompt("platform.password", "Password", hidden=True)
        if _is_accepted_by_platform(answers):
            return
        question = "Enter other values, or continue with these: change or keep"
        if _choose(question, ["change", "keep"], default="change") == "keep":
            return
        # Values given as options are part of what failed, so they are prompted for as well.
        previous_url = answers.values["platform"]["base_url"]
        answers.values["platform"].clear()


def _choose(question: str, choices: list[str], *, default: str) -> str:
    return str(click.prompt(question, default, type=click.Choice(choices), show_choices=False, err=True))


def _is_accepted_by_platform(answers: Answers) -> bool:
    """Try to log in; print the result.

    Returns whether there is no problem.
    """
    from integration.maintenance.platform_checks import check_platform
    from integration.settings.model import Settings

    click.echo("Connecting to the platform …", err=True)
    is_accepted = True
    for result in check_platform(Settings.model_validate({"platform": answers.values["platform"]})):
        click.echo(f"{result}", err=True)
        is_accepted &= result.level == "ok" or result.about == "clock"
    return is_accepted


def prompt_access(answers: Answers) -> None:
    """Prompt for the way in which browsers and the platform reach Switchroom."""
    if not any(answers.has(f"server.{key}") for key in ("trusted_proxies", "tls_cert", "tls_key")):
        click.echo(ACCESS_HELP, err=True)
        access = _choose("HTTPS: proxy, tls or later", ["proxy", "tls", "later"], default="later")
    else:
        access = "proxy" if answers.has("server.trusted_proxies") else "tls"
    if access == "later":
        answers.prompt("server.port", "Port to listen on", default="8000")
        return
    answers.prompt("server.public_url", "HTTPS URL of this Switchroom, such as https://calls.example.com")
    if access == "proxy":
        answers.prompt("server.trusted_proxies", "Address of the proxy", default="127.0.0.1", is_list=True)
        if answers.values["server"]["trusted_proxies"] not in (["127.0.0.1"], ["::1"]):
            answers.values["server"].setdefault("host", "0.0.0.0")
        answers.prompt("server.port", "Port to listen on", default="8000")
        return
    answers.prompt("server.tls_cert", "File of the certificates (PEM)")
    answers.prompt("server.tls_key", "File of the private key (PEM)")
    answers.values["server"].setdefault("host", "0.0.0.0")
    answers.prompt("server.port", "Port to listen on", default="443")


def prompt_rest(answers: Answers) -> None:
    """Prompt for the data folder, time zone and country."""
    from integration.settings import first_config

    answers.prompt("storage.data_dir", "Data folder", default="data")
    answers.prompt(
        "dashboard.timezone",
        "Time zone of the dashboard, such as Europe/London",
        default=first_config.find_local_zone(),
    )
    answers.prompt("dashboard.country", "Country of your numbers, such as GB (empty for none)", optional=True)
