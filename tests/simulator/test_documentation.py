"""Examples of docs/simulator.md run and print the documented output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration.simulator.control import CALL_KEYS
from tests.support.simulator_client import START, Client

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
TEXT = PAGE.read_text("utf-8")
# A shell block, and its output in the next block.
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n```(?:json|text)\n(.*?)^```$", TEXT, re.M | re.S)


@pytest.mark.exhaustive
def test_every_shell_example_prints_the_documented_output(begin, tmp_path):
    assert len(EXAMPLES) == len(re.findall(r"^```sh$", TEXT, re.M)), "every example has its output"
    client = begin(seed=1, cdrs=200, start_at=START)
    simulator = client.simulator
    environment = {
        **os.environ,
        "URL": simulator.url,
        "CONTROL": simulator.control_url,
        "ID": str(simulator.admin.id),
        "KEY": simulator.admin.api_key,
    }
    for command, expected in EXAMPLES:
        completed = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert completed.returncode == 0, command + completed.stderr
        assert completed.stdout.strip() == expected.strip(), command


@pytest.mark.exhaustive
def test_the_python_example_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1\.2 [0-9a-f]{40} [0-9a-f]{40}\n", completed.stdout)


def test_the_page_has_every_script_and_every_option(begin):
    client: Client = begin()
    table = TEXT.partition("| Script |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", table)) == set(client.simulator.world.scripts.by_name)
    assert {key for key in CALL_KEYS if f"`{key}`" not in TEXT and f'"{key}"' not in TEXT} <= {"wait"}
