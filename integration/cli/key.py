"""Commands `switchroom key …`: the keys of the REST facade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from integration.access import keys
from integration.access.rights import list_key_rights
from integration.cli import json_option, local_settings_option, print_list
from integration.cli.console import print_message, run_in_writer
from integration.core import clock
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.settings.model import Settings


def _split(_context: click.Context, _option: click.Parameter, text: str | None) -> list[str] | None:
    return None if text is None else text.replace(",", " ").split()


@click.group("key", help="Manage the keys of the REST facade.")
def command() -> None:
    pass


@command.command(help="Add a key. Prints user_id:secret once; the secret is stored hashed.")
@click.argument("name")
@click.option(
    "--scope", type=click.Choice(keys.SCOPES), required=True, help="read: reads only; write: writes as well."
)
@click.option(
    "--collections",
    callback=_split,
    metavar="A,B",
    help="Limit the key to these collections, such as cdrs,sms. Default: all.",
)
@click.option(
    "--user",
    "platform_user_id",
    type=int,
    metavar="ID",
    help="Limit the key to the records of this platform user.",
)
@click.option("--expires", metavar="TIME", help="End of the key (UTC): 2030-02-28 or '2030-02-28 14:30:00'.")
@click.option(
    "--networks", callback=_split, metavar="A,B", help="Accept the key only from these addresses or networks."
)
@click.option("--rate", metavar="N", help="Requests per minute. Default: no limit.")
@click.option(
    "--grant",
    "rights",
    callback=_split,
    metavar="A,B",
    help=f"Grant these rights: {', '.join(right.name for right in list_key_rights())}. Default: none of"
    " them.",
)
@local_settings_option
def add(settings: Settings, **arguments: Any) -> None:
    result = run_in_writer(settings, "key.add", arguments)
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command("list", help="List the valid keys, without their secrets.")
@json_option
@local_settings_option
def list_(as_json: bool, settings: Settings) -> None:
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    rows = [_describe(key) for key in keys.list_all(app_db)] if app_db.exists else ()
    print_list("keys", FIELDS, rows, as_json)


FIELDS = (
    *("name", "user_id", "scope", "rights", "collections", "platform_user_id", "networks"),
    *("requests_per_minute", "created_at", "expires_at", "last_used_at", "last_used_from"),
)


def _describe(key: keys.Key) -> tuple[Any, ...]:
    """Return the values of FIELDS. Collections are None without a limit."""
    limits = key.limits
    used_at = None if key.used_at is None else clock.utc_text(key.used_at)
    return (
        *(key.name, key.user_id, key.scope, sorted(limits.rights), key.collections, key.platform_user_id),
        *([str(network) for network in limits.networks], limits.requests_per_minute, key.created_at),
        *(limits.expires_at, used_at, key.used_from),
    )


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
    result = run_in_writer(settings, "key.rotate", {"name": name, "overlap_hours": overlap_hours})
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command(help="Revoke a key. It stops working immediately.")
@click.argument("name")
@local_settings_option
def revoke(name: str, settings: Settings) -> None:
    run_in_writer(settings, "key.revoke", {"name": name})
    print_message(f"key {name} revoked")
