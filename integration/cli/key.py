"""Commands `switchroom key …`: the keys of the REST facade."""

from __future__ import annotations

import click

from integration.access import keys
from integration.cli import print_table, settings_option
from integration.core import clock
from integration.server.run_command import run_command
from integration.settings.model import Settings
from integration.sqlite.readers import ReadOnlyDatabase


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
@settings_option
def add(name: str, scope: str, collections: str | None, user_id: int | None, settings: Settings) -> None:
    result = run_command(
        settings,
        "key.add",
        {
            "name": name,
            "scope": scope,
            "collections": None if collections is None else collections.split(","),
            "platform_user_id": user_id,
        },
        on_notice=lambda notice: click.echo(notice, err=True),
    )
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command("list", help="List the valid keys, without their secrets.")
@settings_option
def list_(settings: Settings) -> None:
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    rows = [("NAME", "USER ID", "SCOPE", "COLLECTIONS", "PLATFORM USER", "CREATED", "LAST USED")]
    for key in keys.list_all(app_db) if app_db.exists else ():
        rows.append(
            (
                key.name,
                str(key.user_id),
                key.scope,
                "all" if key.collections is None else ",".join(key.collections),
                str(key.platform_user_id or "-"),
                key.created_at,
                "never" if key.used_at is None else clock.utc_text(key.used_at),
            )
        )
    print_table(rows)


@command.command(help="Revoke a key. It stops working immediately.")
@click.argument("name")
@settings_option
def revoke(name: str, settings: Settings) -> None:
    run_command(
        settings,
        "key.revoke",
        {"name": name},
        on_notice=lambda notice: click.echo(notice, err=True),
    )
    click.echo(f"key {name} revoked", err=True)
