"""`switchroom verify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from integration.cli import _progress as _show
from integration.cli import config_option
from integration.settings.model import Settings, load

HELP = """Check the databases, every file of the archive and whether all webhooks were applied, beside a
running `serve`. Prints a line for each finding; exit status 1 if there is any.

`--coverage` proves instead that what the platform lists is here: its own count of every collection, and of
every day of what has days, against ours. What is missing is fetched on the way.

`--media` reads every file of the archive instead and fetches again what is damaged."""


@click.command("verify", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...")
@click.option("--quick", is_flag=True, help="Look only at the sizes of files, not at their content.")
@click.option("--coverage", is_flag=True, help="Prove the mirror against the platform; all, or those named.")
@click.option("--every-day", is_flag=True, help="With --coverage: print every day, not only gaps.")
@click.option("--media", is_flag=True, help="Read the whole archive, fetch again what is damaged.")
@config_option
def command(
    resources: tuple[str, ...],
    quick: bool,
    coverage: bool,
    every_day: bool,
    media: bool,
    config: Path | None,
) -> None:
    if (resources or every_day) and not coverage:
        raise click.UsageError("names of collections and --every-day belong to --coverage")
    if quick and (coverage or media):
        raise click.UsageError("--quick belongs to verify alone")
    settings = load(config, os.environ)
    done = [prove(settings, resources, every_day)] if coverage else []
    done += [read_media(settings)] if media else []
    if not all(done or [look(settings, quick)]):
        sys.exit(1)


def look(settings: Settings, quick: bool) -> bool:
    """Databases, files and webhooks, read only."""
    from integration.maintenance.verify import Verification

    found = 0
    with _show.progress() as progress:
        verification = Verification(settings.storage.data_dir, quick=quick, progress=progress)
        for finding in verification.findings():
            found += 1
            click.echo(finding)
    for note in verification.notes:
        _show.say(note)
    _show.say(f"{verification.files:,} files checked, {found:,} {'finding' if found == 1 else 'findings'}")
    return not found


def prove(settings: Settings, resources: tuple[str, ...], every_day: bool) -> bool:
    """The ledger: a line for each collection, and for each day that differs."""
    from integration.sync.commands import names
    from integration.sync.reading.verify import PROVE

    result = _carried_out(settings, PROVE, {"resources": names(resources), "every_day": every_day})
    rows: list[tuple[str, ...]] = [(*COVERAGE, "")]
    for proof in result["proofs"]:
        rows.append((*_figures(proof), _verdict(proof)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(COVERAGE))]
    for row, proof in zip(rows, [None, *result["proofs"]], strict=True):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:], strict=True)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
        for day in proof["every"] if proof and every_day else proof["gaps"] if proof else ():
            click.echo(f"    {_day(day)}")
    proofs = result["proofs"]
    missing = [proof["collection"] for proof in proofs if not _proved(proof)]
    days = sum(proof["days"] for proof in proofs)
    said = f"{len(proofs) - len(missing)} of {len(proofs)} collections proved, {days:,} days counted"
    _show.say(f"{said}; not proved: {', '.join(missing)}" if missing else said)
    return bool(result["complete"])


COVERAGE = ("collection", "platform", "here", "days", "agree", "came")


def read_media(settings: Settings) -> bool:
    """Every file of the archive; a line for each that was damaged."""
    from integration.sync.files.scrub import VERIFY_MEDIA

    result = _carried_out(settings, VERIFY_MEDIA, {})
    for one in result["damaged"]:
        what = "fetched again" if one["healed"] else f"not fetched again: {one['error']}"
        click.echo(f"{one['path']}: {one['finding']}; {what}")
    left = sum(not one["healed"] for one in result["damaged"])
    _show.say(f"{result['files']:,} files read, {len(result['damaged']):,} damaged, {left:,} of them still")
    return not left


def _carried_out(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from integration.server.run_command import carry_out

    with _show.progress() as progress:

        def show(facts: dict[str, Any]) -> None:
            progress(str(facts["collection"]), int(facts["done"] or 0), int(facts["total"] or 0))

        return dict(carry_out(settings, name, arguments, show, _show.say))


def _figures(proof: dict[str, Any]) -> tuple[str, ...]:
    """Cells of a line. What has no days, or no count, has dashes."""
    there = "–" if proof["there"] is None else f"{proof['there']:,}"
    days = [f"{proof[name]:,}" if proof["days"] else "–" for name in ("days", "agree")]
    return (proof["collection"], there, f"{proof['here']:,}", *days, f"{proof['came']:,}")


def _proved(proof: dict[str, Any]) -> bool:
    return bool(proof["off"] or (proof["error"] is None and not proof["gaps"]))


def _verdict(proof: dict[str, Any]) -> str:
    if proof["off"]:
        return f"the platform refuses it: {proof['error']}"
    if proof["error"]:
        return f"NOT PROVED: {proof['error']}"
    if proof["gaps"]:
        return "GAPS"
    held = f", {proof['held']:,} deletions wait for a person" if proof["held"] else ""
    return f"proved{held}"


def _day(day: dict[str, Any]) -> str:
    name = "all of it" if day["day"] == "*" else day["day"]
    if day["total"] == day["ours"]:
        return f"{name}: {day['total']:,} there and here, proved {day['proved_at']} UTC"
    told = [f"{day['ours']:,} here of {day['total']:,}", day["cause"], day["repair"]]
    last = f"last proved {day['proved_at']} UTC" if day["proved_at"] else "never proved"
    return f"{name}: {'; '.join(filter(None, [*told, last]))}"
