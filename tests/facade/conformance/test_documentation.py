"""Examples of docs/facade.md, run unchanged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.harness import ROOT, run_installation, wait_for

pytestmark = pytest.mark.exhaustive

TEXT = (ROOT / "docs" / "facade.md").read_text("utf-8")
SHELL = [text for text in re.findall(r"^```sh\n(.*?)\n```$", TEXT, re.M | re.S) if "curl" in text]
BASE_PATH = urlsplit(re.findall(r"^export BASE=(\S+)", TEXT, re.M)[0]).path
PYTHON = re.findall(r"^```python\n(.*?)\n```$", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("data")
    options = ("--seed", "5", "--no-traffic", "--cdrs", "1000")
    settings = {"recordings__download": "false"}
    with run_installation(folder, *options, base=BASE_PATH, **settings) as (_, product):
        read, write = (
            product.command(
                "key", "add", scope, "--scope", scope, "--grant", "export,recordings"
            ).stdout.strip()
            for scope in ("read", "write")
        )
        token = {"X-Auth-Token": read.partition(":")[2]}

        def complete() -> bool:
            responses = [
                product.client.send("GET", f"{BASE_PATH}/{name}", None, token) for name in ("cdrs", "users")
            ]
            return all(headers["X-Mirror-Complete"] == "true" for _, _, headers in responses)

        wait_for(complete, "the mirror", 180)
        yield {**os.environ, "BASE": f"{product.url}{BASE_PATH}", "KEY": read, "WRITE_KEY": write}


def run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("text", SHELL, ids=range(len(SHELL)))
def test_shell_examples_return_records(text: str, environment: dict[str, str]) -> None:
    body = json.loads(run(["sh", "-euc", text], environment))
    assert body["total"] > 0
    assert body["data"]


@pytest.mark.parametrize("text", PYTHON, ids=range(len(PYTHON)))
def test_python_examples_print_a_result(text: str, environment: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(text)
    assert run([sys.executable, str(program)], environment).strip()


def test_manual_has_three_shell_and_three_python_examples() -> None:
    assert (len(SHELL), len(PYTHON)) == (3, 3)
    assert "import pandas" in PYTHON[-1]
