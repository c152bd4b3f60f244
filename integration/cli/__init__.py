"""Command line `switchroom COMMAND`, with one module per command.

A module is imported only when its command is used. Exit status: 0 done, 1 failed, 2 wrong usage or
configuration, 130 interrupted. Results go to standard output, progress and messages to standard error.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from integration.cli.console import quiet_option
from integration.core import installation, logs
from integration.core.errors import ConfigurationError, SwitchroomError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from integration.settings.model import Settings

P = ParamSpec("P")
T = TypeVar("T")

COMMANDS = {
    "init": "Write a first settings file.",
    "doctor": "Check configuration, platform, public URL, disk and clock.",
    "serve": "Run the webhook receiver, the scheduler, the dashboard and the REST facade.",
    "demo": "Run Switchroom with a simulated platform; needs no configuration.",
    "simulator": "Run the simulated platform alone.",
    "sync": "Run one sync of the mirror now.",
    "export": "Export a collection from the mirror.",
    "schedules": "List the export schedules and their state.",
    "replay": "Apply stored webhooks again.",
    "backup": "Back up databases, recordings and voicemail while serve runs.",
    "restore": "Restore a backup.",
    "upgrade": "Show what a start of this version would change in the data.",
    "verify": "Check databases, recordings, voicemail and webhooks.",
    "erase": "Show the stored data of a telephone number, or erase it permanently.",
    "subject": "Write all stored data of a telephone number to a ZIP.",
    "hold": "Manage legal holds, which protect calls and numbers from deletion.",
    "catalogue": "Print the platform's operations and how Switchroom handles each.",
    "user": "Manage the users of the dashboard.",
    "key": "Manage the keys of the REST facade.",
    "events": "Manage the outgoing webhooks, which send events to other programs.",
    "completion": "Print the script that completes commands and names in a shell.",
}
"""Command names and their texts in the list of commands. Each module has a click command `command`."""


class _LazyGroup(click.Group):
    """Command group that imports a command's module when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"integration.cli.{cmd_name}")
        command = module.command
        assert isinstance(command, click.Command)
        _add_quiet_option(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, without an import of each module."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _add_quiet_option(command: click.Command) -> None:
    """Add `--quiet` to a command, or to each command of a group."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            _add_quiet_option(subcommand)
    elif quiet_option not in command.params:
        command.params.append(quiet_option)


def exit_on_error(function: Callable[P, T]) -> Callable[P, T]:
    """Convert exceptions into messages on standard error and an exit status."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except ConfigurationError as error:
            for mistake in error.mistakes:
                logs.print_error(mistake)
            sys.exit(2)
        except SwitchroomError as error:
            logs.print_error(str(error))
            sys.exit(1)
        except BrokenPipeError:
            # The reader of standard output has closed it. Redirect it, because the flush at exit would fail
            # too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(130)

    return wrapper


def _print_version(context: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    # Not click.version_option, which needs the text for each command: in a checkout the commit needs git.
    if is_requested and not context.resilient_parsing:
        click.echo(f"switchroom {installation.describe_build()}")
        context.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help=(
        "Switchroom keeps a local copy of your hosted phone system: it captures every call as it happens,"
        " stores records and recordings, and serves a dashboard, exports and the same REST API."
    ),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the commit, and exit.",
)
def group() -> None:
    # Files that commands create are readable by their owner only.
    os.umask(0o077)
    logs.configure_logging()


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Settings file. Default: $SWITCHROOM_CONFIG, otherwise config.toml if it exists.",
)
"""Option `--config FILE`, passed as `config: Path | None`.

For commands that check their arguments before they load the settings."""


def load_settings(config: Path | None, *, needs_credentials: bool = True) -> Settings:
    """Load the settings and log as they require.

    Commands for local data pass `needs_credentials=False` and run without platform credentials.
    """
    # Import here: `--help` needs no settings, and the import of pydantic takes 300 ms.
    from integration.settings.model import load

    settings = load(config, os.environ, needs_credentials=needs_credentials)
    logs.configure_logging(settings.log.level, settings.log.format)
    return settings


def settings_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--config FILE` and pass the loaded settings as `settings`."""
    return _pass_settings(function, needs_credentials=True)


def local_settings_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--config FILE` and pass settings whose platform credentials may be missing."""
    return _pass_settings(function, needs_credentials=False)


def _pass_settings(function: Callable[..., None], *, needs_credentials: bool) -> Callable[..., None]:
    @config_option
    @functools.wraps(function)
    def wrapper(config: Path | None, **parameters: Any) -> None:
        function(settings=load_settings(config, needs_credentials=needs_credentials), **parameters)

    return wrapper


json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
"""Option `--json`, passed as `as_json: bool`. docs/command-line.md has the fields of each result."""


def print_json(document: Mapping[str, Any]) -> None:
    """Print the result of a command as one JSON object."""
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def print_list(name: str, fields: Sequence[str], rows: Iterable[Sequence[Any]], as_json: bool) -> None:
    """Print rows as JSON `{name: [record]}`, or as a table with a column for each of `fields`."""
    if as_json:
        print_json({name: [dict(zip(fields, row, strict=True)) for row in rows]})
    else:
        headings = [field.replace("_", " ").upper() for field in fields]
        print_table([headings, *([_format_cell(value) for value in row] for row in rows)])


def _format_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
    return text or "-"


def print_table(rows: Sequence[Sequence[str]], right_aligned: Collection[int] = ()) -> None:
    """Print a table to standard output, one line per row. The first row is the header."""
    click.echo("\n".join(format_table(rows, right_aligned)))


def format_table(rows: Sequence[Sequence[str]], right_aligned: Collection[int] = ()) -> list[str]:
    """Return one line per row.

    The indexes `right_aligned` are those of number columns.
    """
    # A line break would split the row.
    cells = [[cell.replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right_aligned else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


@exit_on_error
def main() -> None:
    """Entry point of `switchroom` and `python app.py`."""
    try:
        group.main(prog_name="switchroom", standalone_mode=False)
        # Flush here: at exit a closed pipe would cause a traceback.
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(2 if isinstance(error, click.UsageError) else 1)
    except click.exceptions.Exit as exit_request:
        sys.exit(exit_request.exit_code)
