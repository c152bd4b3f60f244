"""The command line: `switchroom COMMAND`, one file per command, each imported only when it is asked for.

Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted. Results go to standard
output, progress and messages to standard error.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from integration.core import log_format
from integration.core.errors import ConfigurationError, SwitchroomError

if TYPE_CHECKING:
    from rich.table import Table

P = ParamSpec("P")
T = TypeVar("T")

COMMANDS = {
    "init": "Write a first settings file.",
    "doctor": "Check configuration, platform, public address, disk and clock.",
    "serve": "Run the webhook receiver, the scheduler, the dashboard and the REST facade.",
    "demo": "Show everything with a simulated platform; nothing to configure.",
    "simulator": "Run the simulated platform alone.",
    "sync": "Bring the mirror up to date now.",
    "export": "Export a collection from the mirror.",
    "schedules": "List what is exported by schedule, and where each stands.",
    "replay": "Apply stored webhooks again.",
    "backup": "Copy databases, recordings and voicemail, beside a running serve.",
    "restore": "Put a backup in place.",
    "verify": "Check databases, recordings and voicemail.",
    "erase": "Show, or erase everywhere, what is known of a telephone number.",
    "hold": "Keep calls and numbers from retention and erasure (legal hold).",
    "catalogue": "Print the platform's operations with what is done with each.",
    "user": "Manage the people of the dashboard.",
    "key": "Manage the keys of the REST facade.",
}
"""Each is the click command `command` in the module of its name; the text stands in the list of commands."""


class _LazyGroup(click.Group):
    """Finds subcommands by name, so that `--help` and each command load only what they need."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"integration.cli.{cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def exit_on_error(function: Callable[P, T]) -> Callable[P, T]:
    """Turn what `function` raises into messages on standard error and an exit status."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except ConfigurationError as error:
            for mistake in error.mistakes:
                _print_error(mistake)
            sys.exit(2)
        except SwitchroomError as error:
            _print_error(str(error))
            sys.exit(1)
        except BrokenPipeError:
            # Whoever read our output has had enough. Nothing more may be written, at exit neither.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(130)

    return wrapper


def _print_error(message: str) -> None:
    print(f"switchroom: {log_format.escape_line(message)}", file=sys.stderr)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help=(
        "Switchroom keeps a true copy of your hosted phone system on your own disk: it hears every call as it"
        " happens, keeps the recordings, and serves dashboard, exports and the same REST API from here."
    ),
)
@click.version_option(package_name="switchroom", prog_name="switchroom")
def group() -> None:
    # Whatever a command writes is for its user alone.
    os.umask(0o077)
    log_format.configure_logging()


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Settings file; without it $SWITCHROOM_CONFIG, or config.toml if there is one.",
)
"""`--config FILE`, for commands that check their arguments before they load it as `config: Path | None`."""


def settings_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--config FILE` and pass the loaded settings as `settings`."""

    @config_option
    @functools.wraps(function)
    def wrapper(config: Path | None, **parameters: Any) -> None:
        # `--help` needs no settings, and pydantic takes 300 ms to import.
        from integration.settings.model import load

        function(settings=load(config, os.environ), **parameters)

    return wrapper


UNLIMITED_WIDTH = 100_000
"""Columns of a console that folds no line; rich assumes 80 where the output is no terminal."""


def print_table(rows: Sequence[Sequence[str]], right_aligned: Collection[int] = ()) -> None:
    """Print a table to standard output; its first row is the header.

    On a terminal it is fitted to the width. Elsewhere each row is one line, without styles.
    """
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(_build_table(rows, right_aligned))
    else:
        click.echo("\n".join(format_table(rows, right_aligned)))


def format_table(rows: Sequence[Sequence[str]], right_aligned: Collection[int] = ()) -> list[str]:
    """Return one line per row, without styles. The indexes `right_aligned` are those of number columns."""
    from rich.console import Console

    # Without these two, FORCE_COLOR in the environment puts styles into a pipe.
    console = Console(file=io.StringIO(), width=UNLIMITED_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(_build_table(rows, right_aligned))
    return [line.rstrip() for line in capture.get().removesuffix("\n").split("\n")]


def _build_table(rows: Sequence[Sequence[str]], right_aligned: Collection[int]) -> Table:
    # rich takes 100 ms and more to import, so only a command that prints a table imports it.
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, row_styles=("", "dim"))
    for index, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if index in right_aligned else "left", overflow="fold")
    for row in rows[1:]:
        # A Text has no markup; a line break would split the row.
        table.add_row(*(Text(cell.replace("\n", " ")) for cell in row))
    return table


@exit_on_error
def main() -> None:
    """The entry point of `switchroom` and `python app.py`."""
    try:
        group.main(prog_name="switchroom", standalone_mode=False)
        # Here rather than at exit, where a reader that went away would be a traceback.
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(2 if isinstance(error, click.UsageError) else 1)
    except click.exceptions.Exit as exit_request:
        sys.exit(exit_request.exit_code)
