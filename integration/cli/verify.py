"""`switchroom verify`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from integration.cli import _progress, config_option, format_table
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
    results = [verify_completeness(settings, resources, every_day)] if coverage else []
    results += [scrub_archive(settings)] if media else []
    if not all(results or [verify_local(settings, quick)]):
        sys.exit(1)


def verify_local(settings: Settings, quick: bool) -> bool:
    """Databases, files and webhooks, read only."""
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
    """The ledger: a line for each collection, and for each day that differs."""
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
        f"{len(collection_results) - len(incomplete)} of {len(collection_results)} collections proved, "
        f"{days:,} days counted"
    )
    _progress.print_message(f"{summary}; not proved: {', '.join(incomplete)}" if incomplete else summary)
    return bool(result["complete"])


COMPLETENESS_COLUMNS = ("collection", "platform", "here", "days", "agree", "came")


def scrub_archive(settings: Settings) -> bool:
    """Every file of the archive; a line for each that was damaged."""
    result = _run_command(settings, "archive.verify", {})
    for damaged_file in result["damaged"]:
        repair = "fetched again" if damaged_file["healed"] else f"not fetched again: {damaged_file['error']}"
        click.echo(f"{damaged_file['path']}: {damaged_file['finding']}; {repair}")
    remaining = sum(not damaged_file["healed"] for damaged_file in result["damaged"])
    _progress.print_message(
        f"{result['files']:,} files read, {len(result['damaged']):,} damaged, {remaining:,} of them still"
    )
    return not remaining


def _run_command(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from integration.server.run_command import run_command

    with _progress.show_progress() as report_progress:

        def report(state: dict[str, Any]) -> None:
            report_progress(str(state["collection"]), int(state["done"] or 0), int(state["total"] or 0))

        return dict(run_command(settings, name, arguments, report, _progress.print_message))


def _format_cells(collection_result: dict[str, Any]) -> tuple[str, ...]:
    """Cells of a line. What has no days, or no count, has dashes."""
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
        return f"NOT PROVED: {collection_result['error']}"
    if collection_result["gaps"]:
        return "GAPS"
    pending_text = (
        f", {collection_result['held']:,} deletions wait for a person" if collection_result["held"] else ""
    )
    return f"proved{pending_text}"


def _format_day(day: dict[str, Any]) -> str:
    name = "all of it" if day["day"] == "*" else day["day"]
    if day["total"] == day["ours"]:
        return f"{name}: {day['total']:,} there and here, proved {day['proved_at']} UTC"
    details = [f"{day['ours']:,} here of {day['total']:,}", day["cause"], day["repair"]]
    last_verified = f"last proved {day['proved_at']} UTC" if day["proved_at"] else "never proved"
    return f"{name}: {'; '.join(filter(None, [*details, last_verified]))}"
