"""Commands `switchroom key …`: the keys of the REST facade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from integration.access import keys
from integration.access.rights import list_key_rights
from integration.cli import json_option, local_settings_option, print_json, print_table
from integration.cli.console import print_message
from integration.core import clock
from integration.server.run_command import run_command
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.group("key", help="Manage the keys of the REST facade.")
def command() -> None:
    pass


@command.command(help="Add a key. Prints user_id:secret once; the secret is stored hashed.")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(keys.SCOPES), required=True, help="read: reads only; write: writes as well."
)
@click.option(
    "--collections", metavar="A,B", help="Limit the key to these collections, such as cdrs,sms. Default: all."
)
@click.option(
    "--user", "user_id", type=int, metavar="ID", help="Limit the key to the records of this platform user."
)
@click.option("--expires", metavar="TIME", help="End of the key (UTC): 2030-02-28 or '2030-02-28 14:30:00'.")
@click.option("--networks", metavar="A,B", help="Accept the key only from these addresses or networks.")
@click.option("--rate", metavar="N", help="Requests per minute. Default: no limit.")
@click.option(
    "--grant",
    metavar="A,B",
    help=f"Grant these rights: {', '.join(right.name for right in list_key_rights())}. Default: none of"
    " them.",
)
@local_settings_option
def add(
    name: str,
    scope: str,
    collections: str | None,
    user_id: int | None,
    expires: str | None,
    networks: str | None,
    rate: str | None,
    grant: str | None,
    settings: Settings,
) -> None:
    result = run_command(
        settings,
        "key.add",
        {
            "name": name,
            "scope": scope,
            "collections": None if collections is None else collections.split(","),
            "platform_user_id": user_id,
            "expires": expires,
            "networks": _split(networks),
            "rate": rate,
            "rights": _split(grant),
        },
        on_notice=print_message,
    )
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command("list", help="List the valid keys, without their secrets.")
@json_option
@local_settings_option
def list_(as_json: bool, settings: Settings) -> None:
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    stored_keys = keys.list_all(app_db) if app_db.exists else ()
    if as_json:
        print_json({"keys": [_describe_key(key) for key in stored_keys]})
        return
    rows = [
        (
            *("NAME", "USER ID", "SCOPE", "RIGHTS", "COLLECTIONS", "PLATFORM USER", "NETWORKS", "PER MINUTE"),
            *("CREATED", "EXPIRES", "LAST USED", "FROM"),
        )
    ]
    for key in stored_keys:
        rows.append(
            (
                key.name,
                str(key.user_id),
                key.scope,
                ",".join(sorted(key.limits.rights)) or "-",
                "all" if key.collections is None else ",".join(key.collections),
                str(key.platform_user_id or "-"),
                ",".join(key.limits.networks) or "all",
                str(key.limits.requests_per_minute or "-"),
                key.created_at,
                key.limits.expires_at or "never",
                "never" if key.used_at is None else clock.utc_text(key.used_at),
                key.used_from or "-",
            )
        )
    print_table(rows)


@command.command(help="Replace the secret of a key. Prints user_id:secret once.")
@click.argument("name")
@click.option(
    "--overlap",
    "overlap_hours",
    type=float,
    metavar="HOURS",
    default=keys.DEFAULT_OVERLAP_HOURS,
    show_default=True,
    help="Hours for which the old secret stays valid; 0 ends it at once.",
)
@local_settings_option
def rotate(name: str, overlap_hours: float, settings: Settings) -> None:
    result = run_command(
        settings,
        "key.rotate",
        {"name": name, "overlap_hours": overlap_hours},
        on_notice=print_message,
    )
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command(help="Revoke a key. It stops working immediately.")
@click.argument("name")
@local_settings_option
def revoke(name: str, settings: Settings) -> None:
    run_command(
        settings,
        "key.revoke",
        {"name": name},
        on_notice=print_message,
    )
    print_message(f"key {name} revoked")


def _describe_key(key: keys.Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "user_id": key.user_id,
        "scope": key.scope,
        "rights": sorted(key.limits.rights),
        "collections": None if key.collections is None else list(key.collections),
        "platform_user_id": key.platform_user_id,
        "networks": [str(network) for network in key.limits.networks],
        "requests_per_minute": key.limits.requests_per_minute,
        "created_at": key.created_at,
        "expires_at": key.limits.expires_at,
        "last_used_at": None if key.used_at is None else clock.utc_text(key.used_at),
        "last_used_from": key.used_from,
    }


def _split(text: str | None) -> list[str]:
    return [part for part in (text or "").replace(",", " ").split() if part]
