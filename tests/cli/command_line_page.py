"""Help of all commands in docs/command-line.md.

`python -m tests.cli.command_line_page` renews the page from its first command on.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import click

from integration.cli import COMMANDS, group
from tests.support.harness import ROOT

PAGE = ROOT / "docs" / "command-line.md"
WIDTH = 100
"""Columns of the help texts."""
COMMON_OPTIONS = frozenset({"--config", "--json", "--quiet"})
"""Options that the head of the page explains once, with `--help`."""


def iterate_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and subcommand with its name, in documented order."""
    context = click.Context(group, info_name="switchroom")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for subname in command.list_commands(context):
                yield f"{name} {subname}", command.commands[subname]


def render_page() -> str:
    """Return the text of the page with the present help."""
    head = PAGE.read_text("utf-8").partition(f"\n## {next(iter(COMMANDS))}\n")[0]
    return head + "".join(_render_command(*entry) for entry in iterate_commands())


def _render_command(name: str, command: click.Command) -> str:
    level = "###" if " " in name else "##"
    if isinstance(command, click.Group):
        return f"\n{level} {name}\n\n{command.help}\n"
    shown = copy.copy(command)
    shown.add_help_option = False
    shown.params = [parameter for parameter in command.params if COMMON_OPTIONS.isdisjoint(parameter.opts)]
    options = {**group.context_settings, "terminal_width": WIDTH}
    overview = click.Context(group, info_name="switchroom", **options)
    context = click.Context(shown, info_name=name, parent=overview, max_content_width=WIDTH)
    return f"\n{level} {name}\n\n```text\n{shown.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
