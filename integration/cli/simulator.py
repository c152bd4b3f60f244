"""Command `switchroom simulator`: the simulated platform alone."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from integration.core.errors import ConfigurationError, SwitchroomError
from integration.simulator.http import faults as fault_specs

_FAULTS_HELP = (fault_specs.__doc__ or "").partition("\n\n")[2]


@click.command(
    name="simulator",
    epilog="Faults: \n\n\b\n" + _FAULTS_HELP.replace("\n\n", "\n\n\b\n"),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default="a free port", help="Port to listen on.")
@click.option("--seed", default=1, show_default=True, help="Seed of the account and its history.")
@click.option("--start", "start_at", type=float, help="Unix time of the end of the history. [default: now]")
@click.option("--cdrs", default=20_000, show_default=True, help="Approximate number of CDRs of the history.")
@click.option(
    "--time-zone", default="UTC", show_default=True, help="Time zone of the account's office hours."
)
@click.option(
    "--office-day",
    is_flag=True,
    help="Simulate a busy office on a working day: calls are as frequent as in the history at the same hour,"
    " and a story of calls repeats.",
)
@click.option(
    "--assigned-mobiles",
    is_flag=True,
    help="Give callers and contacts mobile numbers of an assigned range (+44 7400 123…) instead of those for"
    " fiction, which text back does not accept as mobile numbers.",
)
@click.option("--webhook", metavar="URL", help="Webhook URL; credentials in the URL are sent as Basic.")
@click.option("--faults", default="", metavar="SPEC", help="Simulated faults; see below.")
@click.option("--speed", default=1.0, show_default=True, help="Speed factor of simulated calls.")
@click.option(
    "--no-traffic",
    "live",
    flag_value=False,
    default=True,
    help="Simulate no calls except those requested at /_simulator/calls.",
)
@click.option("--token-idle", default=900.0, show_default=True, help="Seconds until an unused token expires.")
def command(**options: Any) -> None:
    """Run a simulated platform with an invented account and live calls.

    The account has months of history. All data is in memory. Requests to /_simulator/… on the same port
    control it, from this host only.
    """
    # Imported here because the help needs no web framework.
    from integration.simulator import embed

    if options["speed"] <= 0:
        raise ConfigurationError([f"--speed: must be above 0, not {options['speed']:g}"])
    try:
        ZoneInfo(options["time_zone"])
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(
            [f"--time-zone: no time zone is named {options['time_zone']!r}. Use a name like Europe/London."]
        ) from error
    try:
        embed.run(**options)
    except fault_specs.InvalidFaultSpec as error:
        raise ConfigurationError([f"--faults: {error}"]) from error
    except OSError as error:
        raise SwitchroomError(
            f"The simulator cannot listen on {options['host']}:{options['port']}: {error.strerror or error}."
            " Choose another --port."
        ) from error
