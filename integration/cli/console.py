"""Messages and progress of commands, on standard error; `--quiet`; names for the completion of a shell.

`run_in_writer` runs a command in the writer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from integration.settings.model import Settings

_QUIET = "integration.cli.quiet"

quiet_option = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=lambda context, _option, value: context.meta.__setitem__(_QUIET, value),
    help="Print only results and errors, no progress and no messages.",
)
"""Option `--quiet`, which every command has."""


def is_quiet() -> bool:
    """Return whether the running command has the option `--quiet`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def print_message(message: str) -> None:
    """Print a message to standard error, unless `--quiet` is given."""
    if not is_quiet():
        print(message, file=sys.stderr, flush=True)


@contextmanager
def show_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of step, done and total that draws a bar. Without a terminal it does nothing."""
    if not sys.stderr.isatty() or is_quiet():
        yield lambda _step, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress("{task.description}", *columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, visible=False)
        yield lambda step, done, total: bars.update(
            task, description=step, completed=done, total=total or None, visible=True
        )


def run_in_writer(settings: Settings, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a command in the writer and return its result.

    Shows its progress, and messages about the writer.
    """
    # Imported here: `--help` does not need it.
    from integration.server.run_command import run_command

    with show_progress() as report_progress:

        def report(state: dict[str, Any]) -> None:
            if "done" in state:
                step = str(state.get("collection") or command.partition(".")[0])
                report_progress(step, int(state["done"] or 0), int(state.get("total") or 0))
            elif "doing" in state:
                print_message(state["doing"])

        return run_command(settings, command, arguments, report, print_message)


def complete_collections(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the collections that the commands `sync` and `verify --coverage` accept."""
    # Imported here because only a completion needs the lists.
    from integration.sync.plan import PLAN

    return sorted(name for name in PLAN if name.startswith(start))


def complete_exports(_context: click.Context, _parameter: click.Parameter, start: str) -> list[str]:
    """Return the collections and ready-made exports that the command `export` accepts."""
    from integration.exports.presets import PRESETS

    presets = [name for name in PRESETS if name.startswith(start)]
    return sorted({*presets, *complete_collections(_context, _parameter, start)})
