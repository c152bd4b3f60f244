"""Command `switchroom sync`: one sync with progress and a summary table.

Progress is shown on a terminal only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from integration.cli import console, json_option, print_json, print_table, settings_option
from integration.cli.console import complete_collections

if TYPE_CHECKING:
    from integration.settings.model import Settings

UNDO_DELETIONS = "undo-deletions"

HELP = f"""Run one sync of the mirror now, of all collections or of the named ones.

`sync {UNDO_DELETIONS} RESOURCE` restores records that were marked as deleted on the platform."""


@click.command("sync", help=HELP)
@click.argument("resources", nargs=-1, metavar="[RESOURCE]...", shell_complete=complete_collections)
@click.option("--full", is_flag=True, help="Read all records, not only new ones.")
@click.option("--no-files", is_flag=True, help="Do not download recordings, voicemail and faxes.")
@click.option(
    "--accept-deletions",
    is_flag=True,
    help="Run a full sync of the named collections and accept deletions above the deletion limit.",
)
@json_option
@settings_option
def command(
    resources: tuple[str, ...],
    full: bool,
    no_files: bool,
    accept_deletions: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    # Imported here, because `--help` does not need the client of the platform.
    from integration.sync.commands import resolve_collections

    if resources[:1] == (UNDO_DELETIONS,):
        if len(resources) == 1:
            raise click.UsageError(f"{UNDO_DELETIONS} requires the name of a collection.")
        _undo_deletions(settings, resolve_collections(resources[1:]), as_json=as_json)
        return
    if accept_deletions and not resources:
        raise click.UsageError("--accept-deletions requires the names of the collections.")
    arguments = {
        "resources": resolve_collections(resources),
        "full": full or accept_deletions,
        "files": not (no_files or accept_deletions),
        "accept": accept_deletions,
    }
    result = console.run_in_writer(settings, "collections.sync", arguments)
    if as_json:
        _print_summary_json(result)
    else:
        _print_summary(result)
    sys.exit(0 if result["complete"] else 1)


def _undo_deletions(settings: Settings, collections: list[str], *, as_json: bool) -> None:
    result = console.run_in_writer(settings, "deletions.undo", {"resources": collections})
    if as_json:
        print_json({"restored": result["back"]})
        return
    for name, count in result["back"].items():
        click.echo(f"{name}: {count:,} records restored")


def _print_summary_json(result: dict[str, Any]) -> None:
    files = result["files"]
    print_json(
        {
            "complete": result["complete"],
            "collections": [
                {
                    "collection": row["collection"],
                    "records": row["rows"],
                    "read": row["read"],
                    "new": row["new"],
                    "changed": row["changed"],
                    "missing": row["gone"],
                    "held_deletions": row["held"],
                    "seconds": row["seconds"],
                    "complete": bool(row["complete"]),
                    "error": row["error"],
                }
                for row in result["rows"]
            ],
            "files": None
            if files is None
            else {
                "stored": files["have"],
                "downloaded": files["fetched"],
                "pending": files["waiting"],
                "error": files["error"],
            },
        }
    )


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
