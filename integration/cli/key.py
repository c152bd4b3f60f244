"""Commands `switchroom key …`: the keys of the REST facade."""

from __future__ import annotations

import click

from integration.access import keys
from integration.access.rights import RIGHTS
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
@click.option("--expires", metavar="TIME", help="End of the key (UTC): 2030-02-28 or '2030-02-28 14:30:00'.")
@click.option("--networks", metavar="A,B", help="Accept the key only from these addresses or networks.")
@click.option("--rate", metavar="N", help="Requests per minute. Default: no limit.")
@click.option(
    "--grant", metavar="A,B", help=f"Grant these rights: {', '.join(RIGHTS)}. Default: none of them."
)
@settings_option
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
        on_notice=lambda notice: click.echo(notice, err=True),
    )
    click.echo(f"{result['user_id']}:{result['secret']}")


@command.command("list", help="List the valid keys, without their secrets.")
@settings_option
def list_(settings: Settings) -> None:
    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    rows = [
        (
            *("NAME", "USER ID", "SCOPE", "RIGHTS", "COLLECTIONS", "PLATFORM USER", "NETWORKS", "PER MINUTE"),
            *("CREATED", "EXPIRES", "LAST USED", "FROM"),
        )
    ]
    for key in keys.list_all(app_db) if app_db.exists else ():
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
@settings_option
def rotate(name: str, overlap_hours: float, settings: Settings) -> None:
    result = run_command(
        settings,
        "key.rotate",
        {"name": name, "overlap_hours": overlap_hours},
        on_notice=lambda notice: click.echo(notice, err=True),
    )
    click.echo(f"{result['user_id']}:{result['secret']}")


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


def _split(text: str | None) -> list[str]:
    return [part for part in (text or "").replace(",", " ").split() if part]
