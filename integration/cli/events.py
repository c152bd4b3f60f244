"""Commands `switchroom events …`: the outgoing webhooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from integration.cli import json_option, local_settings_option, print_list
from integration.cli.console import print_message, run_in_writer
from integration.cli.replay import parse_time
from integration.sqlite.readers import ReadOnlyDatabase

if TYPE_CHECKING:
    from integration.settings.model import Settings


@click.group("events", help="Manage the outgoing webhooks, which send events to other programs.")
def command() -> None:
    pass


@command.command(help="Add an outgoing webhook. Prints its secret, with which requests are signed, once.")
@click.argument("name")
@click.argument("url")
@click.option(
    "--kinds", metavar="A,B", required=True, help="Kinds of events, such as call.ended,call.updated."
)
@click.option("--anonymous", is_flag=True, help="Send no names and numbers of outside parties.")
@local_settings_option
def add(name: str, url: str, kinds: str, anonymous: bool, settings: Settings) -> None:
    result = _run(settings, "add", name, url=url, kinds=kinds.replace(",", " ").split(), anonymous=anonymous)
    click.echo(result["secret"])


@command.command("list", help="List the outgoing webhooks, without their secrets.")
@json_option
@local_settings_option
def list_(as_json: bool, settings: Settings) -> None:
    # Imported here, because it imports the mirror.
    from integration.events import subscriptions

    app_db = ReadOnlyDatabase(settings.storage.data_dir / "house.db")
    listed = []
    if app_db.exists:
        with app_db.read() as connection:
            listed = subscriptions.list_all(connection)
    records = [one.describe() for one in listed]
    print_list("webhooks", FIELDS, ([record[name] for name in FIELDS] for record in records), as_json)


FIELDS = (
    *("name", "url", "kinds", "state", "created_at", "delivered_at", "failing_since", "next_at"),
    *("anonymous", "error"),
)


@command.command(help="Send a test event. The exit status is 1 if the receiver does not accept it.")
@click.argument("name")
@local_settings_option
def test(name: str, settings: Settings) -> None:
    result = _run(settings, "test", name)
    if result["error"]:
        print_message(f"the receiver did not accept the test: {result['error']}")
        sys.exit(1)
    print_message(f"the receiver accepted the test with {result['status']}")


@command.command(help="Send the events of a period again, with present data and new signatures.")
@click.argument("name")
@click.option(
    "--from", "since", callback=parse_time, metavar="TIME", required=True, help="First moment (UTC)."
)
@click.option("--to", "until", callback=parse_time, metavar="TIME", help="End (UTC). Default: now.")
@local_settings_option
def replay(name: str, since: str, until: str | None, settings: Settings) -> None:
    result = _run(settings, "replay", name, since=since, until=until)
    print_message(f"{result['delivered']:,} of {result['total']:,} events were delivered")


@command.command(
    help="Replace the secret. Prints the new one once; the old one is used as well for 24 hours."
)
@click.argument("name")
@local_settings_option
def rotate(name: str, settings: Settings) -> None:
    click.echo(_run(settings, "rotate", name)["secret"])


@command.command(help="Continue after a failure, with the event that failed.")
@click.argument("name")
@local_settings_option
def enable(name: str, settings: Settings) -> None:
    _run(settings, "enable", name)
    print_message(f"outgoing webhook {name} is enabled")


@command.command(help="Set the event that failed aside, so that the following ones are delivered.")
@click.argument("name")
@local_settings_option
def skip(name: str, settings: Settings) -> None:
    result = _run(settings, "skip", name)
    print_message(f"{result['type']} {result['id']} is set aside")


@command.command(help="Remove an outgoing webhook and its log.")
@click.argument("name")
@local_settings_option
def remove(name: str, settings: Settings) -> None:
    _run(settings, "remove", name)
    print_message(f"outgoing webhook {name} is removed")


def _run(settings: Settings, action: str, name: str, **arguments: Any) -> dict[str, Any]:
    return run_in_writer(settings, f"events.{action}", {"name": name, **arguments})
