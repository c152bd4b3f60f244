"""`switchroom sync`: one pass now, with progress on a terminal and a summary table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from integration.cli import config_option
from integration.server.run_command import run_command
from integration.settings.model import Settings, load
from integration.sync.commands import resolve_collections

PIPED_WIDTH = 160
"""Columns where standard output is no terminal: rich would fold at 80."""


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
@config_option
def command(
    resources: tuple[str, ...], full: bool, no_files: bool, accept_deletions: bool, config: Path | None
) -> None:
    settings = load(config, os.environ)
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
    with _ProgressDisplay() as display:
        result = run_command(settings, "sync", arguments, display.show_progress, display.print_notice)
    _print_summary(result)
    sys.exit(0 if result["complete"] else 1)


def _undo_deletions(settings: Settings, collections: list[str]) -> None:
    with _ProgressDisplay() as display:
        result = run_command(
            settings, UNDO_DELETIONS, {"resources": collections}, display.show_progress, display.print_notice
        )
    for name, count in result["back"].items():
        click.echo(f"{name}: {count:,} records are shown again")


def _change_column(settings: Settings, action: str, collection: str, field: str) -> None:
    (collection,) = resolve_collections([collection])
    with _ProgressDisplay() as display:
        arguments = {"collection": collection, "field": field}
        result = run_command(settings, action, arguments, display.show_progress, display.print_notice)
    click.echo(f"{field} {COLUMN_MESSAGES[action]} {result['table']}")


class _RateColumn(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


class _ProgressDisplay:
    """Progress bars on standard error where that is a terminal; a line for each change of hands anywhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:16}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _ProgressDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show_progress(self, state: dict[str, Any]) -> None:
        name = state.get("collection")
        if not isinstance(name, str):
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=None)
        self._bars.update(self._tasks[name], completed=state.get("done") or 0, total=state.get("total"))

    def print_notice(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)


def _print_summary(result: dict[str, Any]) -> None:
    # A pipe has no width: as much as is needed, so that nothing is folded.
    console = Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH, no_color=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("collection")
    for heading in ("in the mirror", "read", "new", "changed", "gone", "seconds"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in result["rows"]:
        table.add_row(
            row["collection"],
            *(f"{row[name]:,}" for name in ("rows", "read", "new", "changed", "gone")),
            f"{row['seconds']:.1f}",
            _escape_markup(_row_status(row)),
        )
    files = result["files"]
    if files is not None:
        file_status = f"{files['waiting']:,} not fetched yet" + (
            f": {files['error']}" if files["error"] else ""
        )
        table.add_row(
            "files", f"{files['have']:,}", "", f"{files['fetched']:,}", "", "", "",
            _escape_markup(file_status if files["waiting"] else "complete"),
        )  # fmt: skip
    console.print(table)


def _row_status(row: dict[str, Any]) -> str:
    if row["error"]:
        return str(row["error"])
    if row["held"]:
        return (
            f"the platform lists {row['held']:,} of them no longer; if that is so: "
            f"sync {row['collection']} --accept-deletions"
        )
    return "complete" if row["complete"] else "not complete yet"


def _escape_markup(text: str) -> str:
    """What the platform said is shown as it is, without rich's markup."""
    return text.replace("[", r"\[")
