"""Command `switchroom sync`: one sync with progress and a summary table.

Progress is shown on a terminal only.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from integration.cli import _progress, print_table, settings_option
from integration.server.run_command import run_command
from integration.settings.model import Settings
from integration.sync.commands import resolve_collections

UNDO_DELETIONS = "undo-deletions"
COLUMN_MESSAGES = {"promote": "is a column of", "demote": "is no longer a column of"}

HELP = f"""Run one sync of the mirror now, of all collections or of the named ones.

`sync {UNDO_DELETIONS} RESOURCE` restores records that were marked as deleted on the platform.

`sync promote RESOURCE FIELD` adds a column for an undocumented field to the collection's table and fills it
for all existing and future records. `sync demote RESOURCE FIELD` removes the column."""


@click.command("sync", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...")
@click.option("--full", is_flag=True, help="Read all records, not only new ones.")
@click.option("--no-files", is_flag=True, help="Do not download recordings, voicemail and faxes.")
@click.option(
    "--accept-deletions",
    is_flag=True,
    help="Run a full sync of the named collections and accept deletions above the deletion limit.",
)
@settings_option
def command(
    resources: tuple[str, ...], full: bool, no_files: bool, accept_deletions: bool, settings: Settings
) -> None:
    if resources[:1] == (UNDO_DELETIONS,):
        if len(resources) == 1:
            raise click.UsageError(f"{UNDO_DELETIONS} requires the name of a collection.")
        _undo_deletions(settings, resolve_collections(resources[1:]))
        return
    if resources[:1] and resources[0] in COLUMN_MESSAGES:
        if len(resources) != 3:
            raise click.UsageError(f"{resources[0]} requires the names of a collection and a field.")
        _change_column(settings, *resources)
        return
    if accept_deletions and not resources:
        raise click.UsageError("--accept-deletions requires the names of the collections.")
    arguments = {
        "resources": resolve_collections(resources),
        "full": full or accept_deletions,
        "files": not (no_files or accept_deletions),
        "accept": accept_deletions,
    }
    result = _run_with_progress(settings, "collections.sync", arguments)
    _print_summary(result)
    sys.exit(0 if result["complete"] else 1)


def _undo_deletions(settings: Settings, collections: list[str]) -> None:
    result = _run_with_progress(settings, "deletions.undo", {"resources": collections})
    for name, count in result["back"].items():
        click.echo(f"{name}: {count:,} records restored")


def _change_column(settings: Settings, action: str, collection: str, field: str) -> None:
    (collection,) = resolve_collections([collection])
    result = _run_with_progress(settings, f"fields.{action}", {"collection": collection, "field": field})
    click.echo(f"{field} {COLUMN_MESSAGES[action]} {result['table']}")


def _run_with_progress(settings: Settings, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with _progress.show_progress(has_bar_per_step=True) as report_progress:

        def report(state: dict[str, Any]) -> None:
            if isinstance(state.get("collection"), str):
                report_progress(state["collection"], state.get("done") or 0, state.get("total") or 0)

        return run_command(settings, name, arguments, report, _progress.print_message)


def _print_summary(result: dict[str, Any]) -> None:
    rows = [("collection", "in the mirror", "read", "new", "changed", "missing", "seconds", "")]
    for row in result["rows"]:
        counts = (f"{row[name]:,}" for name in ("rows", "read", "new", "changed", "gone"))
        rows.append((row["collection"], *counts, f"{row['seconds']:.1f}", _row_status(row)))
    files = result["files"]
    if files is not None:
        error = f": {files['error']}" if files["error"] else ""
        status = f"{files['waiting']:,} not downloaded yet{error}" if files["waiting"] else "complete"
        rows.append(("files", f"{files['have']:,}", "", f"{files['fetched']:,}", "", "", "", status))
    print_table(rows, right_aligned=range(1, 7))


def _row_status(row: dict[str, Any]) -> str:
    if row["error"]:
        return str(row["error"])
    if row["held"]:
        return (
            f"{row['held']:,} records are missing on the platform, more than the deletion limit. They are"
            f" kept until you run: sync {row['collection']} --accept-deletions"
        )
    return "complete" if row["complete"] else "incomplete"
