"""`switchroom sync`: one pass now, with progress on a terminal and a summary table."""

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

HELP = f"""Bring the mirror up to date now: all collections, or those named.

`sync {UNDO_DELETIONS} RESOURCE` shows records again that were taken to be deleted on the platform.

`sync promote RESOURCE FIELD` makes a field that nobody documented a column of the collection's table, filled
for every record there is and will be; `sync demote RESOURCE FIELD` takes the column away."""


@click.command("sync", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...")
@click.option("--full", is_flag=True, help="Read everything again, not only what is new.")
@click.option("--no-files", is_flag=True, help="Leave recordings, voicemail and faxes where they are.")
@click.option(
    "--accept-deletions",
    is_flag=True,
    help="What a complete reading of the named collections misses is gone, however much it is.",
)
@settings_option
def command(
    resources: tuple[str, ...], full: bool, no_files: bool, accept_deletions: bool, settings: Settings
) -> None:
    if resources[:1] == (UNDO_DELETIONS,):
        if len(resources) == 1:
            raise click.UsageError(f"{UNDO_DELETIONS} needs the name of a collection")
        _undo_deletions(settings, resolve_collections(resources[1:]))
        return
    if resources[:1] and resources[0] in COLUMN_MESSAGES:
        if len(resources) != 3:
            raise click.UsageError(f"{resources[0]} needs the name of a collection and of a field")
        _change_column(settings, *resources)
        return
    if accept_deletions and not resources:
        raise click.UsageError("--accept-deletions needs the names of the collections it is meant for")
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
        click.echo(f"{name}: {count:,} records are shown again")


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
    rows = [("collection", "in the mirror", "read", "new", "changed", "gone", "seconds", "")]
    for row in result["rows"]:
        counts = (f"{row[name]:,}" for name in ("rows", "read", "new", "changed", "gone"))
        rows.append((row["collection"], *counts, f"{row['seconds']:.1f}", _row_status(row)))
    files = result["files"]
    if files is not None:
        error = f": {files['error']}" if files["error"] else ""
        status = f"{files['waiting']:,} not fetched yet{error}" if files["waiting"] else "complete"
        rows.append(("files", f"{files['have']:,}", "", f"{files['fetched']:,}", "", "", "", status))
    print_table(rows, right_aligned=range(1, 7))


def _row_status(row: dict[str, Any]) -> str:
    if row["error"]:
        return str(row["error"])
    if row["held"]:
        return (
            f"the platform lists {row['held']:,} of them no longer; if that is so: "
            f"sync {row['collection']} --accept-deletions"
        )
    return "complete" if row["complete"] else "not complete yet"
