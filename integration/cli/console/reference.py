"""Generator of docs/command-line.md from the help of the commands.

Regenerate the page with `python -m integration.cli.console.reference > docs/command-line.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from integration.cli import COMMANDS, group

WIDTH = 100
"""Columns of the help texts."""

INTRODUCTION = """\
# Command line

`switchroom COMMAND` runs a command of the installed program, `python app.py COMMAND` the same command from
a checkout. This page has the help of each command; `switchroom COMMAND --help` prints it.

| Exit status | Meaning |
|---|---|
| 0 | done |
| 1 | failed, or a check found a problem |
| 2 | wrong usage or wrong configuration |
| 130 | interrupted (Ctrl-C) |

Results go to standard output, progress and messages to standard error. `--quiet` omits progress and
messages, so that a cron job prints nothing unless there is a result or an error.

All commands except `demo`, `simulator`, `catalogue` and `completion` read the [settings](./settings.md).
`serve`, `sync`, `doctor` and `verify` with `--coverage`, `--media` or `--repair` need the credentials of
the platform; the others work without them. Commands work while `serve` runs, except `restore`: what changes
data is passed to the running process.

## Completion

The Tab key completes commands, options, names of collections and exports, and file formats, after one of
these lines and a new terminal:

| Shell | Line |
|---|---|
| bash | `switchroom completion bash >> ~/.bashrc` |
| zsh | `switchroom completion zsh >> ~/.zshrc` |
| fish | `switchroom completion fish > ~/.config/fish/completions/switchroom.fish` |

`switchroom` must be installed and on the path of the shell; `python app.py` is not completed.

## Results as JSON

With `--json` a command prints one JSON object, also if it finds problems; the exit status is the same.
Later versions may add fields, so ignore those that you do not use. Times are UTC text, missing values are
null.

| Command | Fields |
|---|---|
"""

JSON_FIELDS = {
    "doctor": "`checks`: `level` (`ok`, `warn`, `fail`), `subject`, `finding`, `advice`",
    "sync": "`complete`; `collections`: `collection`, `records` (in the mirror), `read`, `new`, `changed`,"
    " `missing`, `held_deletions`, `seconds`, `complete`, `error`; `files` (null with `--no-files`):"
    " `stored`,"
    " `downloaded`, `pending`, `error`. `undo-deletions`: `restored` (number by collection)",
    "export": "with `--count`: `export`, `rows`",
    "schedules": "`schedules`: `name`, `export`, `format`, `by_month`, `every`, `at`, `timezone`,"
    " `target`, `place`, `state`"
    " (`ok`, `waiting`, `failing`, `paused`), `reason`, `next_at`, `last` (`period`, `state`)",
    "replay": "`applied`, `failed` (numbers of webhooks)",
    "backup": "`path`, `files`, `bytes`, `hard_links`, `notes`",
    "restore": "`data_dir`, `files`, `backup_created_at`, `omitted`, `previous_data_dir`",
    "upgrade": "`version` (of this program), `changes` (what a start would change, one text each)",
    "verify": "`complete`; `findings`: `finding`, `repaired` (null without `--repair`), `error`; `files`,"
    " `notes`."
    " `--coverage`: `coverage`: `collection`, `platform`, `mirror`, `days`, `equal_days`, `fetched`,"
    " `complete`,"
    " `is_refused`, `held_deletions`, `error`, `listed_days` (`day`, `platform`, `mirror`, `cause`, `repair`,"
    " `verified_at`). `--media`: `media`: `files`, `damaged` (`path`, `finding`, `repaired`, `error`)",
    "erase": "`number`, `stored` (number by kind), `held`, `copies`, `backups`, `refusal`. With `--yes`:"
    " `number`, `erasure`, `removed`, `left`, `held`, `held_copies`, `possibly_left`, `removed_copies`,"
    " `backups`,"
    " `delivered`",
    "hold": "with `--list`: `holds`: `what`, `kind`, `since`, `by`, `reason`",
    "catalogue": "`operations`: `module`, `method`, `path`, `answers`, `facade`, `mirror`, `about`",
    "user list": "`users`: `email`, `role`, `rights`, `platform_user_id`, `last_login_at`, `has_password`",
    "key list": "`keys`: `name`, `user_id`, `scope`, `rights`, `collections` (null: all), `platform_user_id`,"
    " `networks`, `requests_per_minute`, `created_at`, `expires_at`, `last_used_at`, `last_used_from`",
}
"""Fields of the JSON result of each command with `--json`."""


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
    """Return the text of docs/command-line.md."""
    rows = "".join(f"| `{name}` | {fields} |\n" for name, fields in JSON_FIELDS.items())
    return INTRODUCTION + rows + "".join(_render_command(*entry) for entry in iterate_commands())


def _render_command(name: str, command: click.Command) -> str:
    options = {**group.context_settings, "terminal_width": WIDTH}
    overview = click.Context(group, info_name="switchroom", **options)
    context = click.Context(command, info_name=name, parent=overview, max_content_width=WIDTH)
    level = "###" if " " in name else "##"
    return f"\n{level} {name}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    print(render_page(), end="")
