"""Command `switchroom completion`."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")

HELP = """Print the script that completes commands, options and names in SHELL: bash, zsh or fish.

To switch the completion on, run the line of your shell once and open a new terminal:

\b
  bash: switchroom completion bash >> ~/.bashrc
  zsh:  switchroom completion zsh >> ~/.zshrc
  fish: switchroom completion fish > ~/.config/fish/completions/switchroom.fish

The command `switchroom` must be installed; `python app.py` is not completed."""


@click.command("completion", help=HELP)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    from click.shell_completion import get_completion_class

    from integration.cli import group

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(group, {}, "switchroom", "_SWITCHROOM_COMPLETE").source())
