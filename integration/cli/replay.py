"""Command `switchroom replay`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from integration.cli import console, json_option, local_settings_option, print_json
from integration.core import clock

if TYPE_CHECKING:
    from integration.settings.model import Settings


def parse_time(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Convert a time in UTC or with an offset to UTC text.

    The inbox is ordered by UTC text.
    """
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"Invalid time {value!r}. Use 2026-02-28 or '2026-02-28 14:30:00' (UTC)."
        ) from None
    return clock.utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


@click.command(
    "replay",
    help="Apply stored webhooks again; without options all of them. Applying a webhook twice changes nothing,"
    " so the command is always safe. A running `serve` does the work.",
)
@click.option("--failed", is_flag=True, help="Only webhooks that could not be applied.")
@click.option(
    "--since", callback=parse_time, metavar="TIME", help="Only webhooks received since this time (UTC)."
)
@json_option
@local_settings_option
def command(failed: bool, since: str | None, as_json: bool, settings: Settings) -> None:
    result = console.run_in_writer(settings, "webhooks.replay", {"failed": failed, "since": since})
    if as_json:
        print_json({"applied": result["applied"], "failed": result["failed"]})
    else:
        click.echo(f"{result['applied']:,} webhooks applied, {result['failed']:,} failed")
    if result["failed"]:
        console.print_message(
            "The page System shows the errors. `switchroom replay --failed` retries these webhooks."
        )
        sys.exit(1)
