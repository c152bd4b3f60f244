"""Tables in pipes and terminals, and the lazy import of rich."""

from __future__ import annotations

import io
import re

import pytest

from integration.cli import COMMANDS, format_table, print_table
from tests.support.child_processes import Running

ROWS = [
    ("NAME", "COUNT", "ABOUT"),
    ("crm", "1,234", "a [red]cell[/red] \\[x]"),
    ("wall board", "5", "w" * 300),
    ("empty", "–", ""),
    ("two", "7", "of two\nlines"),
]
LINES = [
    "NAME        COUNT  ABOUT",
    "crm         1,234  a [red]cell[/red] \\[x]",
    "wall board      5  " + "w" * 300,
    "empty           –",
    "two             7  of two lines",
]


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_pipe_gets_one_line_per_row_without_styles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_forced: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    if is_forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    print_table(ROWS, right_aligned=[1])
    assert capsys.readouterr().out.split("\n") == [*LINES, ""]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(ROWS[:1]) == ["NAME  COUNT  ABOUT"]


def test_a_terminal_gets_lines_of_its_width_without_lost_text(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    print_table(ROWS, right_aligned=[1])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert max(len(line) for line in lines) <= 60
    assert terminal.getvalue().count("w") >= 300, "long words are folded, not truncated"
    assert "[red]" in terminal.getvalue()


def test_the_import_of_commands_does_not_import_rich(start: object) -> None:
    code = (
        "import importlib, sys; sys.stdout.isatty = lambda: True; "
        f"[importlib.import_module('integration.cli.' + name) for name in {list(COMMANDS)}]; "
        "print('rich' in sys.modules)"
    )
    running: Running = start("-c", code)  # type: ignore[operator]
    assert running.ended() == 0
    assert running.out == ["False"]
