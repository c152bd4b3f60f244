"""Command `switchroom verify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from integration.cli import _progress, config_option, format_table
from integration.settings.model import Settings, load

HELP = """Check the databases, every file of the archive, and that all webhooks were applied. `serve` may run.
Prints one line per finding. The exit status is 1 if there is a finding.

With `--coverage`, compare the mirror with the platform's own counts of every collection, and of every day of
collections with dates, and fetch what is missing.

With `--media`, read every file of the archive and download damaged files again."""


@click.command("verify", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...")
@click.option("--quick", is_flag=True, help="Compare only the sizes of files, not their content.")
@click.option(
    "--coverage", is_flag=True, help="Compare all or the named collections with the platform's counts."
)
@click.option("--every-day", is_flag=True, help="With --coverage: print every day, not only gaps.")
@click.option("--media", is_flag=True, help="Read the entire archive and download damaged files again.")
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
        raise click.UsageError("Names of collections and --every-day require --coverage.")
    if quick and (coverage or media):
        raise click.UsageError("--quick cannot be combined with --coverage or --media.")
    settings = load(config, os.environ)
    results = [verify_completeness(settings, resources, every_day)] if coverage else []
    results += [scrub_archive(settings)] if media else []
    if not all(results or [verify_local(settings, quick)]):
        sys.exit(1)


def verify_local(settings: Settings, quick: bool) -> bool:
    """Check databases, files and webhooks read-only. Returns whether there is no finding."""
    from integration.maintenance.verify import Verification

    finding_count = 0
    with _progress.show_progress() as report_progress:
        verification = Verification(settings.storage.data_dir, quick=quick, progress=report_progress)
        for finding in verification.find_faults():
            finding_count += 1
            click.echo(finding)
    for note in verification.notes:
        _progress.print_message(note)
    _progress.print_message(
        f"{verification.files:,} files checked, "
        f"{finding_count:,} {'finding' if finding_count == 1 else 'findings'}"
    )
    return not finding_count


def verify_completeness(settings: Settings, resources: tuple[str, ...], every_day: bool) -> bool:
    """Print completeness: a line per collection and per day with a gap.

    Returns whether all is complete.
    """
    from integration.sync.commands import resolve_collections

    result = _run_command(
        settings, "completeness.verify", {"resources": resolve_collections(resources), "every_day": every_day}
    )
    collection_results = result["proofs"]
    rows = [(*_format_cells(each), _format_verdict(each)) for each in collection_results]
    header, *lines = format_table(
        [(*COMPLETENESS_COLUMNS, ""), *rows], right_aligned=range(1, len(COMPLETENESS_COLUMNS))
    )
    click.echo(header)
    for line, collection_result in zip(lines, collection_results, strict=True):
        click.echo(line)
        for day in collection_result["every" if every_day else "gaps"]:
            click.echo(f"    {_format_day(day)}")
    incomplete = [
        collection_result["collection"]
        for collection_result in collection_results
        if not _is_complete(collection_result)
    ]
    days = sum(collection_result["days"] for collection_result in collection_results)
    summary = (
        f"{len(collection_results) - len(incomplete)} of {len(collection_results)} collections complete, "
        f"{days:,} days counted"
    )
    _progress.print_message(f"{summary}; incomplete: {', '.join(incomplete)}" if incomplete else summary)
    return bool(result["complete"])


COMPLETENESS_COLUMNS = ("collection", "platform", "mirror", "days", "equal", "fetched")
"""Columns of `verify --coverage`: counts of records, days, days with equal counts, fetched records."""


def scrub_archive(settings: Settings) -> bool:
    """Scrub the archive: print a line per damaged file.

    Returns whether all could be repaired.
    """
    result = _run_command(settings, "archive.verify", {})
    for damaged_file in result["damaged"]:
        repair = (
            "downloaded again" if damaged_file["healed"] else f"not downloaded again: {damaged_file['error']}"
        )
        click.echo(f"{damaged_file['path']}: {damaged_file['finding']}; {repair}")
    remaining = sum(not damaged_file["healed"] for damaged_file in result["damaged"])
    _progress.print_message(
        f"{result['files']:,} files read, {len(result['damaged']):,} damaged, {remaining:,} not repaired"
    )
    return not remaining


def _run_command(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from integration.server.run_command import run_command

    with _progress.show_progress() as report_progress:

        def report(state: dict[str, Any]) -> None:
            report_progress(str(state["collection"]), int(state["done"] or 0), int(state["total"] or 0))

        return dict(run_command(settings, name, arguments, report, _progress.print_message))


def _format_cells(collection_result: dict[str, Any]) -> tuple[str, ...]:
    """Format a collection's cells, with dashes for missing counts and days."""
    platform_count = "–" if collection_result["there"] is None else f"{collection_result['there']:,}"
    days = [
        f"{collection_result[name]:,}" if collection_result["days"] else "–" for name in ("days", "agree")
    ]
    return (
        collection_result["collection"],
        platform_count,
        f"{collection_result['here']:,}",
        *days,
        f"{collection_result['came']:,}",
    )


def _is_complete(collection_result: dict[str, Any]) -> bool:
    return bool(
        collection_result["off"] or (collection_result["error"] is None and not collection_result["gaps"])
    )


def _format_verdict(collection_result: dict[str, Any]) -> str:
    if collection_result["off"]:
        return f"the platform refuses it: {collection_result['error']}"
    if collection_result["error"]:
        return f"NOT VERIFIED: {collection_result['error']}"
    if collection_result["gaps"]:
        return "GAPS"
    pending_text = (
        f", {collection_result['held']:,} deletions above the deletion limit"
        if collection_result["held"]
        else ""
    )
    return f"complete{pending_text}"


def _format_day(day: dict[str, Any]) -> str:
    name = "entire collection" if day["day"] == "*" else day["day"]
    if day["total"] == day["ours"]:
        return f"{name}: {day['total']:,} records on both sides, verified {day['proved_at']} UTC"
    details = [f"{day['ours']:,} of {day['total']:,} in the mirror", day["cause"], day["repair"]]
    last_verified = f"last verified {day['proved_at']} UTC" if day["proved_at"] else "never verified"
    return f"{name}: {'; '.join(filter(None, [*details, last_verified]))}"
