"""Examples of docs/exports.md, run unchanged, and its lists of columns."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.catalogue import RESOURCES
from integration.exports.columns import derive_columns
from integration.exports.formats import FORMATS
from integration.exports.presets import PRESETS
from tests.support.application import TestApp
from tests.support.fake_exchange import read_fixture
from tests.support.page_environment import run_examples

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "exports.md").read_text()
CDR = read_fixture("response-cdrs-list-200")["data"][0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_examples_of_the_manual_run(app: TestApp, tmp_path: Path) -> None:
    app.put(
        "cdrs",
        *({**CDR, "id": number, "calldate": f"2026-0{month}-15 10:00:00", "duration": 60, "charge": 0.25}
          for number, month in enumerate((6, 7, 7), 1)),
    )  # fmt: skip
    (tmp_path / "data").symlink_to(tmp_path)
    (command,) = (line for block in blocks("sh") for line in block.splitlines() if "switchroom" in line)
    done = subprocess.run(
        [sys.executable, str(ROOT / "app.py"), *shlex.split(command)[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            "PATH": os.environ["PATH"],
            "SWITCHROOM_PLATFORM__BASE_URL": "http://127.0.0.1:9/v1.2",
            "SWITCHROOM_PLATFORM__USER_ID": "1",
            "SWITCHROOM_PLATFORM__API_KEY": "a" * 40,
            "SWITCHROOM_STORAGE__DATA_DIR": str(tmp_path),
        },
    )
    assert done.returncode == 0, done.stderr
    assert "2026-07  2 rows" in done.stderr
    busiest, minutes = run_examples("docs/exports.md", tmp_path, "[busiest, minutes.to_dict()]")
    assert busiest == [["2026-06", 1, 0.25], ["2026-07", 2, 0.5]]
    assert minutes == {"2026-06": 1.0, "2026-07": 2.0}


def test_datasette_reads_the_mirror_without_changing_it(app: TestApp, tmp_path: Path) -> None:
    app.put("cdrs", *({**CDR, "id": n, "calldate": f"2026-07-0{n} 10:00:00"} for n in range(1, 8)))
    (tmp_path / "data").symlink_to(tmp_path)
    serve, query = re.findall(r"`(datasette [^`]+)`", (ROOT / "docs" / "sql.md").read_text())

    def run_datasette(line: str, *more: str) -> Any:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "datasette"), *shlex.split(line)[1:], *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    before = hashlib.sha256((tmp_path / "mirror.db").read_bytes()).hexdigest()
    newest = run_datasette(query)
    assert [row["calldate"] for row in newest] == [f"2026-07-0{n} 10:00:00" for n in (7, 6, 5, 4, 3)]
    # `--get` prints one response instead of opening a port.
    tables = run_datasette(serve, "--get", "/mirror.json")["tables"]
    assert {"cdrs", "users", "_calls"} <= {table["name"] for table in tables}
    assert hashlib.sha256((tmp_path / "mirror.db").read_bytes()).hexdigest() == before
    app.put("cdrs", {**CDR, "id": 8, "calldate": "2026-07-08 10:00:00"})
    assert run_datasette(query)[0]["calldate"] == "2026-07-08 10:00:00"


def test_manual_names_only_existing_derived_columns() -> None:
    table = PAGE[PAGE.index("| Column | Value | Of |") :].split("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`([a-z_]+)`", line.split("|")[1])}
    there = {name for row in RESOURCES if row.is_listed for name in derive_columns(row, {})}
    assert named
    assert named <= there


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.columns])
def test_manual_lists_the_default_columns_in_order(name: str) -> None:
    line = re.search(rf"- \*\*`{name}`\*\*[^\n]*\n([^\n]*)", PAGE)
    assert line is not None
    assert tuple(re.findall(r"`([^`]+)`", line[1])) == PRESETS[name].columns


def test_manual_lists_every_format() -> None:
    section = PAGE.split("## Formats")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(FORMATS)
