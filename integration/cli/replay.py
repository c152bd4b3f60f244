"""`switchroom replay`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from integration.cli import _progress as _show
from integration.cli import config_option
from integration.core import clock
from integration.settings.model import load


def _stamp(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """A time in UTC, or with an offset of its own, as the text the inbox sorts by."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no time; write 2026-02-28 or '2026-02-28 14:30:00' (UTC)"
        ) from None
    return clock.stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


@click.command(
    "replay",
    help="Apply stored webhooks again, all of them without options. Applying twice changes nothing, so this"
    " is safe at any time. A running `serve` does the work.",
)
@click.option("--failed", is_flag=True, help="Only those that could not be applied.")
@click.option("--since", callback=_stamp, metavar="TIME", help="Only those received since then (UTC).")
@config_option
def command(failed: bool, since: str | None, config: Path | None) -> None:
    from integration.inbox.replay_command import REPLAY
    from integration.server.run_command import carry_out

    settings = load(config, os.environ)
    with _show.progress() as progress:
        result = carry_out(
            settings,
            REPLAY,
            {"failed": failed, "since": since},
            on_progress=lambda facts: progress("webhooks", int(facts["done"]), int(facts["total"])),
            on_notice=_show.say,
        )
    click.echo(f"{result['applied']:,} webhooks applied, {result['failed']:,} failed")
    if result["failed"]:
        _show.say("the System page shows why; `switchroom replay --failed` tries them again")
        sys.exit(1)
