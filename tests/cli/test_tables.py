"""Tables in pipes and terminals, and the lazy import of rich."""

from __future__ import annotations

import pytest

from integration.cli import print_table

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


def test_a_table_has_one_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, right_aligned=[1])
    assert capsys.readouterr().out.split("\n") == [*LINES, ""]
