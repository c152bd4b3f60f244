"""`switchroom simulator`: the pretend platform alone."""

from __future__ import annotations

from pathlib import Path

import click

from integration.core.errors import ConfigurationError, SwitchroomError
from integration.simulator.http import faults as fault_specs

_FAULTS_HELP = (fault_specs.__doc__ or "").partition("\n\n")[2]


@click.command(
    name="simulator",
    epilog="Faults: \n\n\b\n" + _FAULTS_HELP.replace("\n\n", "\n\n\b\n"),
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=0, show_default="a free one", help="Port.")
@click.option(
    "--seed", default=1, show_default=True, help="The same seed gives the same account and history."
)
@click.option("--start", "start_at", type=float, help="Unix time at which history ends. [default: now]")
@click.option("--cdrs", default=20_000, show_default=True, help="About how many CDRs of history.")
@click.option("--webhook", metavar="URL", help="Where to post webhooks; credentials in it are sent as Basic.")
@click.option(
    "--webhook-ca", type=click.Path(exists=True, dir_okay=False), help="Certificates to trust for it."
)
@click.option("--faults", default="", metavar="SPEC", help="What goes wrong on purpose; see below.")
@click.option("--speed", default=1.0, show_default=True, help="How much faster calls come and go.")
@click.option(
    "--no-traffic", is_flag=True, help="No calls by themselves, only those asked for at /_simulator/calls."
)
@click.option("--token-idle", default=900.0, show_default=True, help="Seconds until an unused token expires.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Answer HTTPS with this.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its key.")
def command(
    host: str,
    port: int,
    seed: int,
    start_at: float | None,
    cdrs: int,
    webhook: str | None,
    webhook_ca: str | None,
    faults: str,
    speed: float,
    no_traffic: bool,
    token_idle: float,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Run a simulated platform with an invented account, months of history and live calls.

    Everything is kept in memory. Control while it runs: /_simulator/… on the same port, from this machine.
    """
    # Imported here: the web framework is not needed to print the help.
    from integration.simulator import serve

    if speed <= 0:
        raise ConfigurationError(["--speed: must be above 0"])
    if (tls_cert is None) != (tls_key is None):
        raise ConfigurationError(["--tls-cert and --tls-key: give both or neither"])
    try:
        serve.run(
            host=host,
            port=port,
            seed=seed,
            start_at=start_at,
            cdrs=cdrs,
            webhook=webhook,
            webhook_ca=Path(webhook_ca) if webhook_ca else None,
            faults=faults,
            speed=speed,
            live=not no_traffic,
            token_idle=token_idle,
            tls_cert=tls_cert,
            tls_key=tls_key,
        )
    except fault_specs.InvalidFaultSpec as error:
        raise ConfigurationError([f"--faults: {error}"]) from error
    except OSError as error:
        raise SwitchroomError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
