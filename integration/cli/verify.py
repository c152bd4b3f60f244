"""Command `switchroom verify`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from integration.cli import config_option, console, format_table, json_option, load_settings, print_json
from integration.cli.console import complete_collections
from integration.core.errors import StorageError

if TYPE_CHECKING:
    from integration.maintenance.content_checks import Finding
    from integration.settings.model import Settings

HELP = """Check the databases, their content, the files of the archive, and that all webhooks were applied.
`serve` may run. Prints one line per finding. The exit status is 1 if there is a finding.

The content is compared with second copies: webhooks and events with their hashes, columns of records with
the record as received. Samples of calls, of the search index and of report totals are compared with what
they are computed from. With `--deep`, all of these.

With `--repair`, download damaged files again and compute calls, index and totals again. The next full sync
reads changed records again. The exit status is 1 if a finding remains.

With `--coverage`, compare the mirror with the platform's own counts of every collection, and of every day of
collections with dates, and fetch what is missing.

With `--media`, read every file of the archive and download damaged files again."""


@click.command("verify", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...", shell_complete=complete_collections)
@click.option(
    "--quick", is_flag=True, help="Compare only the sizes of files; read no content of files and databases."
)
@click.option("--deep", is_flag=True, help="Compute all calls from their events and CDRs, not a sample.")
@click.option("--repair", is_flag=True, help="Download damaged files again; recompute calls.")
@click.option(
    "--coverage", is_flag=True, help="Compare all or the named collections with the platform's counts."
)
@click.option("--every-day", is_flag=True, help="With --coverage: print every day, not only gaps.")
@click.option("--media", is_flag=True, help="Read the entire archive and download damaged files again.")
@json_option
@config_option
def command(
    resources: tuple[str, ...],
    quick: bool,
    deep: bool,
    repair: bool,
    coverage: bool,
    every_day: bool,
    media: bool,
    as_json: bool,
    config: Path | None,
) -> None:
    if (resources or every_day) and not coverage:
        raise click.UsageError("Names of collections and --every-day require --coverage.")
    if (quick or deep or repair) and (coverage or media):
        raise click.UsageError("--quick, --deep and --repair cannot be combined with --coverage or --media.")
    if quick and deep:
        raise click.UsageError("--quick cannot be combined with --deep.")
    settings = load_settings(config, needs_credentials=coverage or media or repair)
    report = _Report(as_json)
    results = [verify_completeness(settings, resources, every_day, report)] if coverage else []
    results += [scrub_archive(settings, report)] if media else []
    is_complete = all(results or [verify_local(settings, report, quick=quick, deep=deep, repair=repair)])
    if as_json:
        print_json({"complete": is_complete, **report.document})
    if not is_complete:
        sys.exit(1)


class _Report:
    """Result of the command: lines, or one JSON document."""

    def __init__(self, as_json: bool) -> None:
        self.document: dict[str, Any] = {}
        self._as_json = as_json

    def print_line(self, line: str) -> None:
        if not self._as_json:
            click.echo(line)


MAX_REPAIRS = 10_000
"""Findings that one run repairs, which bounds the memory and the size of the command."""


def verify_local(settings: Settings, report: _Report, *, quick: bool, deep: bool, repair: bool) -> bool:
    """Check databases, content, files and webhooks. Returns whether no finding remains.

    Without `repair` nothing is written.
    """
    from integration.maintenance.verify import Verification
    from integration.mirror.derived.declaration import make_rules
    from integration.sqlite.readers import open_readonly
    from integration.workspace.opening_hours import load_rules

    finding_count, rules = 0, make_rules(settings)
    with suppress(StorageError), open_readonly(settings.storage.data_dir / "house.db") as connection:
        load_rules(connection, rules)
    descriptions: list[dict[str, Any]] = []
    report.document["findings"] = descriptions
    repairable: list[Finding] = []
    with console.show_progress() as report_progress:
        verification = Verification(
            settings.storage.data_dir,
            rules,
            is_quick=quick,
            is_deep=deep,
            progress=report_progress,
        )
        for finding in verification.find_faults():
            finding_count += 1
            if finding.target is not None and len(repairable) < MAX_REPAIRS:
                repairable.append(finding)
                if repair:
                    continue
            if finding.advice and finding.advice not in verification.notes:
                verification.notes.append(finding.advice)
            report.print_line(finding.text)
            descriptions.append({"finding": finding.text, "repaired": None, "error": None})
    for note in verification.notes:
        console.print_message(note)
    remaining_count = finding_count
    if repair and repairable:
        remaining_count -= repair_findings(settings, repairable, report)
    elif repairable:
        console.print_message(
            "`switchroom verify --repair` downloads damaged files again and recomputes calls; the next"
            " full sync then reads changed records again."
        )
    repaired_text = f", {remaining_count:,} not repaired" if repair else ""
    console.print_message(
        f"{verification.files:,} files checked, "
        f"{finding_count:,} {'finding' if finding_count == 1 else 'findings'}{repaired_text}"
    )
    report.document |= {"files": verification.files, "notes": list(verification.notes)}
    return not remaining_count


def repair_findings(settings: Settings, findings: list[Finding], report: _Report) -> int:
    """Repair findings in the writer and print a line for each.

    Returns the number of repaired ones.
    """
    errors = console.run_in_writer(
        settings, "contents.repair", {"targets": [finding.target for finding in findings]}
    )["errors"]
    for finding, error in zip(findings, errors, strict=True):
        report.print_line(f"{finding.text}; {'repaired' if error is None else f'not repaired: {error}'}")
        report.document["findings"].append(
            {
                "finding": finding.text,
                "repaired": error is None,
                "error": error,
            }
        )
    return sum(error is None for error in errors)


def verify_completeness(
    settings: Settings, resources: tuple[str, ...], every_day: bool, report: _Report
) -> bool:
    """Print completeness: a line per collection and per day with a gap.

    Returns whether all is complete.
    """
    from integration.sync.commands import resolve_collections

    result = console.run_in_writer(
        settings, "completeness.verify", {"resources": resolve_collections(resources), "every_day": every_day}
    )
    collection_results = result["proofs"]
    rows = [(*_format_cells(each), _format_verdict(each)) for each in collection_results]
    header, *lines = format_table(
        [(*COMPLETENESS_COLUMNS, ""), *rows], right_aligned=range(1, len(COMPLETENESS_COLUMNS))
    )
    report.print_line(header)
    for line, collection_result in zip(lines, collection_results, strict=True):
        report.print_line(line)
        for day in collection_result["every" if every_day else "gaps"]:
            report.print_line(f"    {_format_day(day)}")
    report.document["coverage"] = [_describe_coverage(each, every_day) for each in collection_results]
    incomplete = [
        collection_result["collection"]
        for collection_result in collection_results
        if not collection_result["complete"]
    ]
    days = sum(collection_result["days"] for collection_result in collection_results)
    summary = (
        f"{len(collection_results) - len(incomplete)} of {len(collection_results)} collections complete, "
        f"{days:,} days counted"
    )
    console.print_message(f"{summary}; incomplete: {', '.join(incomplete)}" if incomplete else summary)
    return bool(result["complete"])


COMPLETENESS_COLUMNS = ("collection", "platform", "mirror", "days", "equal", "fetched")
"""Columns of `verify --coverage`: counts of records, days, days with equal counts, fetched records."""


def scrub_archive(settings: Settings, report: _Report) -> bool:
    """Scrub the archive: print a line per damaged file.

    Returns whether all could be repaired.
    """
    result = console.run_in_writer(settings, "archive.verify", {})
    for damaged_file in result["damaged"]:
        repair = (
            "downloaded again" if damaged_file["healed"] else f"not downloaded again: {damaged_file['error']}"
        )
        report.print_line(f"{damaged_file['path']}: {damaged_file['finding']}; {repair}")
    report.document["media"] = {
        "files": result["files"],
        "damaged": [
            {
                "path": damaged_file["path"],
                "finding": damaged_file["finding"],
                "repaired": bool(damaged_file["healed"]),
                "error": damaged_file["error"],
            }
            for damaged_file in result["damaged"]
        ],
    }
    remaining = sum(not damaged_file["healed"] for damaged_file in result["damaged"])
    console.print_message(
        f"{result['files']:,} files read, {len(result['damaged']):,} damaged, {remaining:,} not repaired"
    )
    return not remaining


def _describe_coverage(collection_result: dict[str, Any], every_day: bool) -> dict[str, Any]:
    return {
        "collection": collection_result["collection"],
        "platform": collection_result["there"],
        "mirror": collection_result["here"],
        "days": collection_result["days"],
        "equal_days": collection_result["agree"],
        "fetched": collection_result["came"],
        "complete": collection_result["complete"],
        "is_refused": bool(collection_result["off"]),
        "held_deletions": collection_result["held"],
        "error": collection_result["error"],
        "listed_days": [
            {
                "day": day["day"],
                "platform": day["total"],
                "mirror": day["ours"],
                "cause": day["cause"],
                "repair": day["repair"],
                "verified_at": day["proved_at"],
            }
            for day in collection_result["every" if every_day else "gaps"]
        ],
    }


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
