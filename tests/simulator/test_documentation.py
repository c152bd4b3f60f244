"""The examples of docs/simulator.md do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from integration.simulator.control import CALL_KEYS
from tests.support.simulator_client import START, Client

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
TEXT = PAGE.read_text("utf-8")
# A shell block, and what it prints in the block that follows it at once.
EXAMPLES = re.findall(r"^```sh\n(.*?)^```\n\n```(?:json|text)\n(.*?)^```$", TEXT, re.M | re.S)


def test_every_shell_example_prints_what_the_page_says(begin, tmp_path):
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
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 0, command + ran.stderr
        assert ran.stdout.strip() == expected.strip(), command


def test_every_shell_example_says_what_it_prints():
    assert len(EXAMPLES) == len(re.findall(r"^```sh$", TEXT, re.M)) >= 9


def test_the_python_example_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.M | re.S)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1\.2 [0-9a-f]{40} [0-9a-f]{40}\n", ran.stdout)


def test_the_page_names_every_script_and_every_wish(begin):
    client: Client = begin()
    table = TEXT.partition("| Script |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", table)) == set(client.simulator.world.scripts.by_name)
    assert {key for key in CALL_KEYS if f"`{key}`" not in TEXT and f'"{key}"' not in TEXT} <= {"wait"}


def test_the_page_keeps_to_endpoints_that_exist(begin):
    client: Client = begin()
    for path in set(re.findall(r"/_simulator(/[a-z/-]+)", TEXT)):
        if not path.startswith("/records"):
            assert (
                client.session.options(client.simulator.control_url + path, timeout=30).status_code == 200
            ), path
