"""docs/sql.md: examples, recipes in SQLite, its shell and DuckDB, tables of columns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.sample_account import fill
from tests.support.applications.shared_app import SharedApp, running_shared_app
from tests.support.harness import ROOT
from tests.support.page_environment import run_examples

PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
RECIPES: dict[str, str] = dict(
    re.findall(r"^### ([^\n]+)\n(?:(?!\n### ).)*?```sql\n(.*?)```", PAGE, re.M | re.S)
)

EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "Calls per local day": [
        ("2026-10-03", 1, 1),
        ("2026-10-05", 1, 1),
        ("2026-10-06", 2, 1),
        ("2026-10-25", 3, 3),
        ("2026-10-31", 1, 1),
    ],
    "Missed calls by hour of the day": [("00", 2), ("01", 1)],
    "Service level of each number": [("+442079460002", 6, 33.3), ("+442079460003", 1, 100.0)],
    "Answered calls and talk time of each person": [
        ("Bob Sample", 4, 229),
        ("Ann Example", 2, 90),
        ("Cat", 0, 0),
    ],
    "Missed callers who were not reached since": [("+447700900103", "", 1, "2026-10-25 00:15:00")],
    "Callers with most calls": [
        ("+447700900101", "Dora Example", 4),
        ("+447700900102", "", 1),
        ("+447700900103", "", 1),
        ("+447700900104", "", 1),
    ],
    "Cost of each month": [("2026-10", "GBP", 0.75), ("2026-11", "GBP", 0.1)],
    "Transferred calls": [
        (5, "2026-10-25 01:30:00", "Ann Example", 50),
        (5, "2026-10-25 01:30:55", "Bob Sample", 40),
    ],
    "Recordings in which a word was spoken": [
        ("2026-10-05 09:30:07", "Ann Example", "Dora Example", "recordings/2026/10/05/7001.mp3")
    ],
    "Text messages of each contact": [
        ("447700900101", "Dora Example", 2, "2026-10-05 11:05:00"),
        ("447700900104", "Finn Sample", 1, "2026-10-06 11:00:00"),
    ],
}
"""Results of the recipes for the calls of `sample_account`, written by hand."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedApp]:
    with running_shared_app(tmp_path_factory.mktemp("sql") / "data") as app:
        fill(app)
        yield app


@pytest.fixture(scope="module")
def mirror(app: SharedApp) -> Path:
    return app.mirror_db.path


def test_the_page_has_ten_recipes_with_expected_results() -> None:
    assert list(RECIPES) == list(EXPECTED)
    assert len(RECIPES) == 10


def test_the_page_describes_the_columns_of_all_views(mirror: Path) -> None:
    sections = re.findall(r"^### (v_\w+)\n(.*?)(?=^### |\Z)", PAGE, re.M | re.S)
    described = {name: re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.M) for name, text in sections}
    with closing(sqlite3.connect(f"{mirror.as_uri()}?mode=ro", uri=True)) as connection:
        views = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")]
        assert list(described) == [name for name in views if name.startswith("v_")]
        for view, columns in described.items():
            stored = [row[1] for row in connection.execute(f"PRAGMA table_info({view})")]
            assert [name for name, _ in columns] == stored
            for name, column_type in columns:
                types = {row[0] for row in connection.execute(f"SELECT DISTINCT typeof({name}) FROM {view}")}
                assert types <= {column_type, "null"}, f"{view}.{name}"


@pytest.mark.parametrize("title", EXPECTED)
def test_recipes_in_sqlite3(title: str, mirror: Path) -> None:
    with closing(sqlite3.connect(f"{mirror.as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute(RECIPES[title]).fetchall() == EXPECTED[title]


@pytest.mark.exhaustive
def test_python_examples_and_recipes_in_duckdb(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(mirror.parent)
    recipes = f"[duck.execute(sql).fetchall() for sql in {list(RECIPES.values())!r}]"
    longest = "longest.party_e164.iloc[0], int(longest.talk_seconds.iloc[0]), str(longest.talk_seconds.dtype)"
    newest, people, outcomes, results, talked = run_examples(
        "docs/sql.md", tmp_path, f"[newest[0], people[0], outcomes, {recipes}, [{longest}]]"
    )
    assert newest == ["2026-11-02 09:00:00", ""]
    assert people == {"name": "Ann Example", "extension": "1001"}
    assert outcomes == [
        ["answered", 6],
        ["internal", 1],
        ["missed", 2],
        ["not_answered", 1],
        ["voicemail", 1],
    ]
    assert talked == ["+447700900102", 120, "Int64"]
    for (title, expected), rows in zip(EXPECTED.items(), results, strict=True):
        assert rows == [list(row) for row in expected], title
