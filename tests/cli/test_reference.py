"""docs/command-line.md: the help of all commands, and the fields of all JSON results."""

from __future__ import annotations

import re
import subprocess
import sys

import click

from integration.cli import COMMANDS
from tests.cli import command_line_page
from tests.cli.command_line_page import iterate_commands
from tests.support.harness import ROOT

PAGE = command_line_page.PAGE.read_text("utf-8")


def test_the_page_equals_the_help_of_the_commands() -> None:
    # In a process of its own: click stores the help option of a command at its first use, and other tests
    # use commands without their group.
    print_page = "from tests.cli import command_line_page; print(command_line_page.render_page())"
    rendered = subprocess.run(
        [sys.executable, "-c", print_page], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # Versions of click differ in spaces.
    assert PAGE.split() == rendered.split()


def test_each_command_has_a_section_and_quiet() -> None:
    headings = re.findall(r"^##+ ([a-z-]+(?: [a-z-]+)?)$", PAGE, re.MULTILINE)
    assert headings == [name for name, _ in iterate_commands()]
    assert [name for name in headings if " " not in name] == list(COMMANDS)
    assert {"key rotate", "user remove-second-factor"} <= set(headings)
    lacking = [
        name
        for name, command in iterate_commands()
        if not any("--quiet" in parameter.opts for parameter in command.params)
    ]
    assert lacking == ["user", "key", "events"], "the groups have it in their commands"


def test_the_head_names_the_commands_without_settings() -> None:
    without = [
        name
        for name, command in iterate_commands()
        if not isinstance(command, click.Group)
        and not any("--config" in parameter.opts for parameter in command.params)
    ]
    row = re.search(r"^\| `--config FILE` \| all except (.*?) \|", PAGE, re.MULTILINE)
    assert row is not None
    assert without == re.findall(r"`(\w+)`", row[1])


def test_the_fields_of_each_json_result_are_documented() -> None:
    with_json = [
        name
        for name, command in iterate_commands()
        if any("--json" in parameter.opts for parameter in command.params)
    ]
    table = PAGE.partition("## Results as JSON")[2].partition("\n## ")[0]
    assert sorted(with_json) == sorted(re.findall(r"^\| `([a-z ]+)` \|", table, re.MULTILINE))
