"""Commands `switchroom user …`: the users of the dashboard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from integration.access import passwords, people
from integration.access.rights import RIGHTS, ROLES
from integration.cli import json_option, local_settings_option, print_list
from integration.cli.console import print_message, run_in_writer
from integration.core.errors import ConfigurationError, DomainError
from integration.settings.base_url import find_base_url
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.settings.model import Settings

password_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input; print no setup link."
)
platform_user_option = click.option(
    "--user", "user_id", type=int, metavar="ID", help="Platform user of this dashboard user."
)


@click.group("user", help="Manage the users of the dashboard.")
def command() -> None:
    pass


@command.command(help="Add a user. Prints a one-time setup link, valid for 48 hours.")
@click.argument("email")
@click.option("--role", type=click.Choice(ROLES), required=True, help="Role of the user.")
@password_option
@platform_user_option
@local_settings_option
def add(email: str, role: str, password_stdin: bool, user_id: int | None, settings: Settings) -> None:
    result = run_in_writer(
        settings,
        "user.add",
        {
            "email": email,
            "role": role,
            "platform_user_id": user_id,
            "password_hash": _hash_from_stdin(email) if password_stdin else None,
            "base_url": find_base_url(settings),
        },
    )
    _print_link(result, f"{result['email']} can log in now")


@command.command("list", help="List the users with their roles and rights.")
@json_option
@local_settings_option
def list_(as_json: bool, settings: Settings) -> None:
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    users = people.list_all(app_db) if app_db.exists else ()
    fields = ("email", "role", "rights", "platform_user_id", "last_login_at", "has_password")
    rows = (
        (one.email, one.role, sorted(one.rights), one.platform_user_id, one.login_at, one.has_password)
        for one in users
    )
    print_list("users", fields, rows, as_json)


@command.command(help="Set a new password. Without --password-stdin prints a one-time setup link.")
@click.argument("email")
@password_option
@local_settings_option
def passwd(email: str, password_stdin: bool, settings: Settings) -> None:
    password_hash = _hash_from_stdin(email) if password_stdin else None
    result = run_in_writer(
        settings,
        "user.passwd",
        {"email": email, "password_hash": password_hash, "base_url": find_base_url(settings)},
    )
    _print_link(result, f"{result['email']} has a new password; all sessions of the user have ended")


@command.command(help="Change the role, the rights or the platform user of a user.")
@click.argument("email")
@click.option("--role", type=click.Choice(ROLES), help="New role.")
@click.option("--grant", type=click.Choice(list(RIGHTS)), multiple=True, help="Grant a right.")
@click.option("--deny", type=click.Choice(list(RIGHTS)), multiple=True, help="Deny a right.")
@platform_user_option
@local_settings_option
def change(
    email: str,
    role: str | None,
    grant: tuple[str, ...],
    deny: tuple[str, ...],
    user_id: int | None,
    settings: Settings,
) -> None:
    if conflicting := set(grant) & set(deny):
        raise click.UsageError(
            f"--grant and --deny cannot have the same right: {', '.join(sorted(conflicting))}"
        )
    rights = dict.fromkeys(grant, True) | dict.fromkeys(deny, False)
    result = run_in_writer(
        settings,
        "user.change",
        {"email": email, "role": role, "rights": rights, "platform_user_id": user_id},
    )
    print_message(result["about"])


@command.command(
    "remove-second-factor", help="Remove a lost second factor. The user is notified and may set up another."
)
@click.argument("email")
@local_settings_option
def remove_second_factor(email: str, settings: Settings) -> None:
    result = run_in_writer(settings, "factor.remove", {"email": email})
    print_message(f"{result['email']} has no second factor now")


@command.command(help="Remove a user. The user's sessions end immediately.")
@click.argument("email")
@local_settings_option
def remove(email: str, settings: Settings) -> None:
    run_in_writer(settings, "user.remove", {"email": email})
    print_message(f"{people.normalize_email(email)} removed")


def _hash_from_stdin(email: str) -> str:
    if sys.stdin is None:
        raise click.UsageError("--password-stdin: standard input is closed")
    password = sys.stdin.readline().rstrip("\r\n")
    try:
        return passwords.hash_password(password, [email])
    except DomainError as refusal:
        raise ConfigurationError([f"--password-stdin: {refusal}"]) from None


def _print_link(result: dict[str, Any], message: str) -> None:
    if "link" in result:
        click.echo(result["link"])
        print_message("This link is valid for one use within 48 hours.")
    else:
        print_message(message)
