"""Command `switchroom init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

import click

from integration.cli import _progress, config_option
from integration.settings.sources import DEFAULT_FILE


@click.command(
    "init",
    help="Write a first settings file. On a terminal, prompts for anything not given as an option."
    " Never overwrites a file.",
)
@click.option("--base-url", metavar="URL", help="Service root of the platform with its version segment.")
@click.option("--user-id", metavar="ID", help="User id of the API key.")
@click.option("--api-key-file", type=click.File(), metavar="FILE", help="File with the API key; - for stdin.")
@click.option("--email", help="E-mail address of a login, instead of an API key.")
@click.option(
    "--password-file", type=click.File(), metavar="FILE", help="File with the login's password; - for stdin."
)
@click.option("--public-url", metavar="URL", help="HTTPS URL for the platform and browsers.")
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
    data_dir: str | None,
    port: int | None,
    timezone: str | None,
    country: str | None,
    config: Path | None,
) -> None:
    from integration.maintenance import first_config

    path = config or Path(os.environ.get("SWITCHROOM_CONFIG") or DEFAULT_FILE)
    first_config.require_absent(path)
    api_key = api_key_file.read().strip() if api_key_file else None
    password = password_file.read().strip() if password_file else None
    if sys.stdin.isatty():
        base_url = base_url or _prompt_user(
            "Service root of the platform, such as https://api.example.com/v1.2"
        )
        if email is None and password is None:
            user_id = user_id or _prompt_user(
                "User id of the API key (empty to log in by e-mail)", optional=True
            )
            if user_id:
                api_key = api_key or _prompt_user("API key", hidden=True)
            else:
                email = _prompt_user("E-mail address of the login")
        if email is not None:
            password = password or _prompt_user("Password", hidden=True)
        public_url = public_url or _prompt_user(
            "HTTPS URL of this Switchroom (empty for none yet)", optional=True
        )
        timezone = timezone or _prompt_user(
            "Time zone of the dashboard, such as Europe/London (empty for UTC)", optional=True
        )
        country = country or _prompt_user(
            "Country of your numbers, such as GB (empty for none)", optional=True
        )
    sections: dict[str, dict[str, str | int | None]] = {
        "platform": {
            "base_url": base_url,
            "user_id": user_id,
            "api_key": api_key,
            "email": email,
            "password": password,
        },
        "server": {"public_url": public_url, "port": port},
        "storage": {"data_dir": data_dir},
        "dashboard": {"timezone": timezone, "country": country},
    }
    first_config.write(
        path,
        {
            section: {key: value for key, value in keys.items() if value or value == 0}
            for section, keys in sections.items()
        },
    )
    _progress.print_message("Next: check it with `switchroom doctor`, then run `switchroom serve`.")
    click.echo(path)


def _prompt_user(question: str, *, hidden: bool = False, optional: bool = False) -> str:
    """Prompt for a value on standard error.

    Standard output is for the result.
    """
    answer = click.prompt(
        question, hide_input=hidden, err=True, default="" if optional else None, show_default=False
    )
    return str(answer).strip()
